//! Claiming items: the time of the claim is its token, so it is later with each claim.

use pillarbox::model::{Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Scope};
use sqlx::Row as _;

use super::row::{NOW, is_there, read_item};
use crate::connection::Session;
use crate::error::Failure;
use crate::sql::Sql;
use crate::time::{Time, skipped};

pub(crate) async fn claim(session: &mut Session, sql: &Sql, request: &Claim) -> Result<Vec<Row>, Failure> {
    if request.from == ClaimFrom::Queue {
        return Err(unsupported("there is no queue in the layout flowcatalyst"));
    }
    let query = session.query(&sql.claim);
    let rows = query
        .bind(request.now.map(Time))
        .bind(skipped(request.skip_recent))
        .bind(i64::try_from(request.rows).unwrap_or(i64::MAX))
        .fetch_all(&mut session.connection)
        .await?;
    Ok(rows.iter().map(|row| read_item(row).into_row()).collect())
}

/// Reads without claiming: what waits, in the order of claims.
pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, Failure> {
    let wanted = match &request.scope {
        Scope::Due => request.rows,
        // Asking for nothing tells the time.
        Scope::Slots { slots, .. } if slots.is_empty() => 0,
        _ => return Err(unsupported("rows of the layout flowcatalyst have no numbers to be read by")),
    };
    // One more than asked for tells whether there is more.
    let limit = i64::try_from(wanted).unwrap_or(i64::MAX - 1).saturating_add(1);
    let query = session.query(&sql.fetch_due);
    let query = query.bind(request.now.map(Time)).bind(skipped(request.skip_recent)).bind(limit);
    let found = query.fetch_all(&mut session.connection).await?;
    let now = match found.first() {
        Some(row) => row.try_get::<Time, _>(NOW)?.0,
        None => request.now.unwrap_or_default(),
    };
    let mut fetched = Fetched { rows: Vec::new(), cursor: Cursor::default(), more: false, now };
    let mut bytes = 0_usize;
    for row in found.iter().filter(|row| is_there(row)) {
        if fetched.rows.len() >= wanted || (bytes >= request.bytes && !fetched.rows.is_empty()) {
            fetched.more = matches!(request.scope, Scope::Due);
            break;
        }
        let row = Row { token: Token::default(), ..read_item(row).into_row() };
        bytes = bytes.saturating_add(row.event.as_ref().map_or(0, |event| event.payload().size()));
        fetched.rows.push(row);
    }
    Ok(fetched)
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
