//! Promoting due rows: out of the lane of delayed rows, to the end of the order.

use std::time::Duration;

use pillarbox::port::{Order, Promote, Promoted};

use crate::connection::Session;
use crate::error::DriverError;
use crate::membership::{later_due, next_due};
use crate::probe::Locking;
use crate::renumber::{Moving, renumber_free};
use crate::row::time_of;
use crate::sql::{Sql, fill};
use crate::time::{literal, now_sql};

pub(crate) async fn promote(
    session: &mut Session,
    sql: &Sql,
    request: &Promote,
    locking: Locking,
) -> Result<Promoted, DriverError> {
    session.begin().await?;
    let query = session.query(fill(&sql.node_lock, &[("{now}", now_sql(request.now))]));
    let there = query.bind(request.node.to_string()).fetch_optional(&mut session.connection).await?;
    let Some(row) = there else {
        return Ok(Promoted::default());
    };
    let now = request.now.or(time_of(&row, 0)).unwrap_or_default();
    let parts = [("{now}", literal(now)), ("{skip_locked}", locking.words())];
    let query = session.once(fill(&sql.promote_find, &parts));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    let due = query.fetch_all(&mut session.connection).await?;
    let mut rows = due.iter().map(Moving::read).collect::<Result<Vec<_>, _>>()?;
    for row in &mut rows {
        let in_group = request.order == Order::PerGroup && row.is_grouped();
        row.lane = (!in_group).then_some(request.lane.0.into());
    }
    let moved = renumber_free(session, sql, &rows).await?;
    session.commit().await?;
    let next_due = next_due(session, sql, now).await?;
    let later = match next_due {
        Some(Duration::ZERO) => later_due(session, sql, now).await?,
        _ => None,
    };
    Ok(Promoted { moved, next_due, later })
}
