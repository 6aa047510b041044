//! Selecting items for operators.

use pillarbox::model::{GLOBAL, Status};
use pillarbox::port::Select;

use crate::inspect::Selection;
use crate::sql::{Sql, places};
use crate::time::text;

/// The SQL for a selection of items. An item with an unknown status appears only in a
/// selection of all statuses.
pub(crate) fn selection(select: &Select, sql: &Sql) -> Selection {
    let mut found = if select.ids.is_empty() {
        format!("{} WHERE TRUE", sql.event)
    } else {
        format!("{} WHERE id IN ({})", sql.event, places(select.ids.len()))
    };
    if !select.statuses.is_empty() {
        let of = |status: &Status| match status {
            Status::New => "(status IN ('PENDING', 'PROCESSING') AND retry_count <= 0)",
            Status::Retry => "(status IN ('PENDING', 'PROCESSING') AND retry_count > 0)",
            Status::Done => "status = 'COMPLETED'",
            Status::Dead => "status = 'FAILED'",
        };
        let any: Vec<&str> = select.statuses.iter().map(of).collect();
        found += &format!(" AND ({})", any.join(" OR "));
    }
    if select.aggregate_type.as_deref().is_some_and(|name| name != GLOBAL) {
        found += " AND FALSE";
    }
    let mut selection = Selection::new(found, select);
    selection.and("type = ?", select.event_type.clone());
    selection.and("message_group = ?", select.group.as_ref().map(ToString::to_string));
    let ended = "status IN ('COMPLETED', 'FAILED') AND processed_at < ?";
    selection.and(ended, select.ended_before.map(text));
    selection
}
