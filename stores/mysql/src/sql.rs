//! The statements, with the names of the tables put in once, and what is put in each time.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use pillarbox::model::{Layout, TableName};
use pillarbox::port::Contents;

use crate::row::{CLAIM_TAIL, COLUMNS, LEFT_OUT, LIGHT_COLUMNS, RECORD_COLUMNS};
use crate::{flowcatalyst, joins};

/// The group of a row.
pub(crate) const GROUP_KEY: &str =
    "coalesce(message_group, concat(coalesce(aggregate_type, '__GLOBAL__'), '/', aggregate_id))";

/// Texts compare by bytes. Each server takes the comment that is meant for it: MySQL and TiDB, MariaDB.
const BY_BYTES: &str = "/*!80017 COLLATE utf8mb4_0900_bin */ /*M! COLLATE utf8mb4_nopad_bin */";

/// Fewer numbers than this and one more are no range.
const SHORT_RUN: i64 = 3;

/// The names of the tables of one outbox.
pub(crate) struct Names {
    layout: Layout,
    table: TableName,
    replacements: Vec<(&'static str, String)>,
    event: String,
}

impl Names {
    pub(crate) fn new(table: &TableName, layout: Layout) -> Self {
        let (event, family) = (table.as_str(), table.family());
        // Checked identifiers hold no quote.
        let full = |name: &str| format!("`{name}`");
        let (columns, light, left_out) = match layout {
            Layout::Native => (COLUMNS, LIGHT_COLUMNS, LEFT_OUT),
            Layout::Flowcatalyst => {
                (flowcatalyst::COLUMNS, flowcatalyst::LIGHT_COLUMNS, flowcatalyst::LEFT_OUT)
            }
        };
        let mut replacements = vec![
            ("{group_key}", GROUP_KEY.to_owned()),
            ("{by_bytes}", BY_BYTES.to_owned()),
            ("{event}", full(event)),
            ("{meta_name}", format!("'{family}_meta'")),
            ("{event_name}", format!("'{event}'")),
            ("{slot_name}", format!("'{family}_slot'")),
            ("{event_status}", format!("`idx_{event}_status`")),
            ("{columns}", columns.to_owned()),
            ("{light_columns}", light.to_owned()),
            ("{left_out}", left_out.to_owned()),
            ("{claim_tail}", CLAIM_TAIL.to_owned()),
            ("{record_columns}", RECORD_COLUMNS.to_owned()),
            ("{join_columns}", joins::COLUMNS.to_owned()),
            ("{join_state}", joins::STATE_COLUMNS.to_owned()),
        ];
        for (place, beside) in [
            ("{node}", "node"),
            ("{slot}", "slot"),
            ("{group}", "group"),
            ("{attempt}", "attempt"),
            ("{audit}", "audit"),
            ("{meta}", "meta"),
            ("{join}", "join"),
            ("{join_member}", "join_member"),
        ] {
            replacements.push((place, full(&format!("{family}_{beside}"))));
        }
        Self { layout, table: table.clone(), replacements, event: full(event) }
    }

    /// The text with all names put in.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.replacements.iter().fold(text.to_owned(), |text, (place, name)| text.replace(place, name))
    }

    fn statement(&self, text: &str) -> Arc<str> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        self.fill(&lines.join("\n")).into()
    }
}

/// A statement with what differs from call to call: numbers, times, lists of places, ids and names by their bytes; never a
/// text of others as it is.
pub(crate) fn fill(statement: &str, parts: &[(&str, String)]) -> String {
    parts.iter().fold(statement.to_owned(), |text, (place, part)| text.replace(place, part))
}

/// So many places for values.
pub(crate) fn places(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// The columns of a list, with NULL for contents that are left out.
pub(crate) fn listed(columns: &str, contents: Contents) -> String {
    const HEAVY: [&str; 3] = ["headers", "payload", "payload_bytes"];
    let listed = columns.split(", ").map(|column| match (contents, HEAVY.contains(&column)) {
        (Contents::LeftOut, true) => format!("NULL AS {column}"),
        _ => column.to_owned(),
    });
    listed.collect::<Vec<_>>().join(", ")
}

/// Numbers as a list; one that no row has where there are none.
pub(crate) fn list<T: std::fmt::Display>(numbers: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    if texts.is_empty() { "-9".to_owned() } else { texts.join(", ") }
}

/// A text as it stands in a statement: by its bytes, so that none of them can end it.
pub(crate) fn quoted(text: &str) -> String {
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("_utf8mb4 X'{digits}'")
}

/// Texts as a list; one that compares with nothing where there are none.
pub(crate) fn quoted_list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
}

/// Picks rows by their numbers, where each is there and locked by this transaction. Numbers in a row become a range, which
/// costs the server less than single ones. It ends before the last of them: a server that looks past the end of a range
/// finds that row, never one of others.
pub(crate) fn locked_rows(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: BTreeSet<i64> = numbers.into_iter().collect();
    let (mut ranges, mut single) = (Vec::new(), Vec::new());
    let mut runs = numbers.into_iter().peekable();
    while let Some(first) = runs.next() {
        let mut last = first;
        while let Some(next) = runs.next_if(|next| *next - 1 == last) {
            last = next;
        }
        if last - first < SHORT_RUN {
            single.extend(first..=last);
        } else {
            ranges.push(format!("seq BETWEEN {first} AND {}", last - 1));
            single.push(last);
        }
    }
    ranges.push(format!("seq IN ({})", list(single)));
    ranges.join(" OR ")
}

macro_rules! statements {
    (
        native: $($name:ident),* ;
        each: $($each:ident),* ;
        items: $($item:ident = $file:literal),*
    ) => {
        /// Every statement of the store.
        pub(crate) struct Sql {
            pub(crate) layout: Layout,
            pub(crate) table: TableName,
            /// The table of events.
            pub(crate) event: String,
            /// The full names of tables, by their places in statements.
            full: Vec<(&'static str, String)>,
            /// The words that name the index of items, once that was looked for.
            pub(crate) by_status: OnceLock<String>,
            $(pub(crate) $name: Arc<str>,)*
            $(pub(crate) $each: Arc<str>,)*
            $(pub(crate) $item: Arc<str>,)*
        }

        impl Sql {
            pub(crate) fn new(names: &Names) -> Self {
                let each = |native: &'static str, items: &'static str| match names.layout {
                    Layout::Native => native,
                    Layout::Flowcatalyst => items,
                };
                Self {
                    layout: names.layout,
                    table: names.table.clone(),
                    event: names.event.clone(),
                    full: names.replacements.clone(),
                    by_status: OnceLock::new(),
                    $($name: names.statement(include_str!(concat!("../sql/", stringify!($name), ".sql"))),)*
                    $($each: names.statement(each(
                        include_str!(concat!("../sql/", stringify!($each), ".sql")),
                        include_str!(concat!("../sql/flowcatalyst/", stringify!($each), ".sql")),
                    )),)*
                    $($item: names.statement(include_str!(concat!("../sql/flowcatalyst/", $file, ".sql"))),)*
                }
            }
        }
    };
}

// Those under `native` are the same in both layouts, or have no meaning in the other and are never run there.
statements!(
    native:
        alive,
        attempts,
        attempts_add,
        attempts_forget,
        audit,
        audits,
        cancel_find,
        claim,
        claim_find,
        claim_large,
        claim_mark,
        claim_marked,
        claim_queue_find,
        claim_queue_mark,
        claim_topic_find,
        claim_topic_lock,
        claim_unmark,
        clock,
        committed,
        count,
        dead_find,
        delete,
        done,
        done_lock,
        draw,
        due_topics,
        epoch,
        epoch_grow,
        fetch_due,
        fetch_group,
        fetch_large,
        fetch_slots,
        group_free,
        group_head,
        group_hold,
        group_show,
        groups,
        groups_behind,
        groups_named,
        insert,
        join_count,
        join_end,
        join_fire,
        join_show,
        join_start,
        join_wait,
        joins,
        joins_ended,
        joins_lock,
        joins_purge,
        later_due,
        list,
        list_newest,
        member_end,
        member_show,
        members_add,
        members_end,
        members_pending,
        members_purge,
        members_there,
        membership_lock,
        migrate_lock,
        migrate_unlock,
        next_due,
        next_number,
        node_bury,
        node_join,
        node_leave,
        node_lock,
        node_publish,
        node_renew,
        node_state,
        node_state_there,
        nodes,
        peek,
        pending_upto,
        probe_hold,
        probe_skip,
        promote_find,
        purge,
        purge_any,
        purge_any_find,
        purge_find,
        purge_turn,
        purge_turn_over,
        reap,
        reap_find,
        reap_lock,
        renumber,
        renumber_begin,
        rights_delete,
        rights_insert,
        rights_select,
        rights_update,
        rights_user,
        settle,
        settle_busy,
        settle_find,
        show,
        slots_drop,
        slots_evict,
        slots_free,
        slots_release,
        slots_take,
        slots_trust,
        stats_beside,
        step,
        steps_find,
        steps_lock,
        steps_mark,
        steps_seek,
        written,
        written_ids;
    each:
        waiting,
        slots,
        slots_sweep,
        revive,
        stats_pending,
        stats_ended,
        stats_written,
        stats_dead,
        version;
    items:
        items_fetch_due = "fetch_due",
        items_large = "large",
        items_claim_find = "claim_find",
        items_claim = "claim",
        items_settle_busy = "settle_busy",
        items_settle_find = "settle_find",
        items_settle = "settle",
        items_delete = "delete",
        items_stuck = "stuck",
        items_recover_find = "recover_find",
        items_recover_lock = "recover_lock",
        items_leads = "leads",
        items_take_find = "take_find",
        items_take_lock = "take_lock",
        items_recover = "recover",
        items_insert = "insert",
        items_list = "list",
        items_list_newest = "list_newest",
        items_show = "show",
        items_dead_find = "dead_find",
        items_cancel_find = "cancel_find",
        items_purge = "purge",
        items_purge_any = "purge_any",
        items_columns = "columns",
        items_index_name = "index_name"
);

impl Sql {
    /// The full name of a table, by its place in statements.
    pub(crate) fn full(&self, table: &str) -> String {
        let name = self.full.iter().find(|(place, _)| place.trim_matches(['{', '}']) == table);
        name.map(|(_, name)| name.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_in_statements_by_their_bytes() {
        assert_eq!(quoted_list(["a'", ""]), "_utf8mb4 X'6127', _utf8mb4 X''");
        assert_eq!(quoted_list([]), "NULL");
    }

    #[test]
    fn numbers_in_a_row_are_a_range_that_ends_before_the_last() {
        assert_eq!(locked_rows([]), "seq IN (-9)");
        assert_eq!(locked_rows([7, 5, 6]), "seq IN (5, 6, 7)");
        assert_eq!(locked_rows([1, 2, 3, 4, 9]), "seq BETWEEN 1 AND 3 OR seq IN (4, 9)");
        assert_eq!(
            locked_rows((1..=5).chain(7..=10)),
            "seq BETWEEN 1 AND 4 OR seq BETWEEN 7 AND 9 OR seq IN (5, 10)"
        );
        assert_eq!(locked_rows([i64::MAX, i64::MIN]), format!("seq IN ({}, {})", i64::MIN, i64::MAX));
    }
}
