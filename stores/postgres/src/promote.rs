//! Promotes delayed rows that are due: moves them to the end of the order.

use std::time::Duration;

use pillarbox::port::{Order, Promote, Promoted};
use sqlx::Row;

use crate::connection::Session;
use crate::error::DriverError;
use crate::membership::{later_due, next_due};
use crate::sql::Sql;
use crate::time::Time;

pub(crate) async fn promote(
    session: &mut Session,
    sql: &Sql,
    request: &Promote,
) -> Result<Promoted, DriverError> {
    let row = session
        .query(&sql.promote)
        .bind(request.now.map(Time))
        .bind(request.node.to_string())
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .bind(request.order == Order::PerGroup)
        .bind(request.lane.0)
        .fetch_one(&mut session.connection)
        .await?;
    if !row.try_get::<bool, _>(0)? {
        return Ok(Promoted::default());
    }
    let moved = usize::try_from(row.try_get::<i64, _>(1)?).unwrap_or_default();
    let now = row.try_get::<Time, _>(2)?.0;
    let next_due = next_due(session, sql, now).await?;
    // Due rows are left over if there were more than the limit or others have locked them.
    let later = match next_due {
        Some(Duration::ZERO) => later_due(session, sql, now).await?,
        _ => None,
    };
    Ok(Promoted { moved, next_due, later })
}
