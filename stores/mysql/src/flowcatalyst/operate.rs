//! Purging items that ended long ago.

use pillarbox::port::{Purge, PurgeStatus};

use super::row::whole;
use crate::connection::Session;
use crate::error::DriverError;
use crate::migrate::version;
use crate::sql::{Sql, fill};
use crate::time::{micros_back, now_sql};

pub(crate) async fn purge(session: &mut Session, sql: &Sql, request: &Purge) -> Result<u64, DriverError> {
    let now = ("{now}", now_sql(request.now.map(whole)));
    let status = match request.status {
        PurgeStatus::Done => Some("COMPLETED"),
        PurgeStatus::Dead => Some("FAILED"),
        PurgeStatus::Any => None,
    };
    // The head of a held group is dead. Without our tables beside the items no group can be held.
    let may_hold = request.status != PurgeStatus::Done && version(session, sql).await? > 0;
    let free = if may_hold { sql.items_free.to_string() } else { "true".to_owned() };
    let parts = [now, ("{free}", free)];
    let query = match status {
        Some(status) => session.query(fill(&sql.items_purge, &parts)).bind(status),
        None => session.query(fill(&sql.items_purge_any, &parts)),
    };
    let query = query.bind(micros_back(request.older_than));
    let query = query.bind(i64::try_from(request.limit).unwrap_or(i64::MAX));
    Ok(query.execute(&mut session.connection).await?.rows_affected())
}
