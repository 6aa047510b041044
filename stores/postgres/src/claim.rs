//! Claiming rows under a lease.

use pillarbox::model::Row;
use pillarbox::port::{Claim, ClaimFrom};

use crate::connection::Session;
use crate::error::Failure;
use crate::row::{Claimed, read_row};
use crate::sql::Sql;
use crate::time::{Time, micros, skipped};

pub(crate) async fn claim(session: &mut Session, sql: &Sql, request: &Claim) -> Result<Vec<Row>, Failure> {
    let query = session.query(match request.from {
        ClaimFrom::Queue => &sql.claim_queue,
        ClaimFrom::Events => &sql.claim,
    });
    let rows = query
        .bind(request.now.map(Time))
        .bind(skipped(request.skip_recent))
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .bind(request.owner.as_str())
        .bind(micros(request.lease))
        .fetch_all(&mut session.connection)
        .await?;
    Ok(rows.iter().map(|row| read_row(row, Claimed::Yes)).collect())
}
