//! Claiming items: the time of the claim is its token, so it is later with each claim, by a second if need be.

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Row, Token};
use pillarbox::port::{Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Reap, Scope};

use super::row::{NOW, now_sql, read_item, whole};
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::clock;
use crate::probe::Locking;
use crate::row::{text_of, time_of};
use crate::sql::{Sql, fill, places};
use crate::time::{literal, micros_back, youngest_sql};

pub(crate) async fn claim(session: &mut Session, sql: &Sql, request: &Claim) -> Result<Vec<Row>, Failure> {
    if request.from == ClaimFrom::Queue {
        return Err(unsupported("there is no queue in the layout flowcatalyst"));
    }
    let by_status = by_status(session, sql).await?;
    let locking = locking(session);
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{youngest}", youngest_sql(request.now, request.skip_recent)),
        ("{by_status}", by_status),
        ("{skip_locked}", locking.words()),
    ];
    session.begin().await?;
    let query = session.query(fill(&sql.items_claim_find, &parts));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    let found = query.fetch_all(&mut session.connection).await?;
    let Some(now) = found.first().and_then(|row| time_of(row, NOW)) else { return Ok(Vec::new()) };
    mark(session, sql, found.iter().map(read_item).collect(), now).await
}

/// TiDB takes SKIP LOCKED and no lock: there claims wait for each other.
pub(super) fn locking(session: &Session) -> Locking {
    if session.server.tidb { Locking::Waits } else { Locking::Skips }
}

/// Marks items as claimed that this transaction has locked, and commits.
pub(super) async fn mark(
    session: &mut Session,
    sql: &Sql,
    mut items: Vec<Item>,
    now: Timestamp,
) -> Result<Vec<Row>, Failure> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let text = fill(&sql.items_claim, &[("{now}", literal(now)), ("{ids}", places(items.len()))]);
    let query = items.iter().fold(session.once(text), |query, item| query.bind(item.id.clone()));
    query.execute(&mut session.connection).await?;
    session.commit().await?;
    for item in &mut items {
        let after_last = item.processed_at.map(|last| last + SignedDuration::from_secs(1));
        item.processed_at = Some(after_last.map_or(now, |after| after.max(now)));
        item.status = Some("PROCESSING".to_owned());
    }
    Ok(items.into_iter().map(|item| item.into_row()).collect())
}

/// The words that name the index in whose order claims read, whatever it is called; none if there is none.
pub(super) async fn by_status(session: &mut Session, sql: &Sql) -> Result<String, Failure> {
    if let Some(words) = sql.by_status.get() {
        return Ok(words.clone());
    }
    let row = session.query(&*sql.items_index_name).fetch_optional(&mut session.connection).await?;
    let name = row.as_ref().and_then(|row| text_of(row, 0));
    // An index of someone else's could have any name.
    let name = name.filter(|name| !name.contains('`'));
    let words = name.map(|name| format!("FORCE INDEX (`{name}`)")).unwrap_or_default();
    Ok(sql.by_status.get_or_init(|| words).clone())
}

/// Reads without claiming: what waits, in the order of claims.
pub(crate) async fn fetch(session: &mut Session, sql: &Sql, request: &Fetch) -> Result<Fetched, Failure> {
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let mut fetched = Fetched { rows: Vec::new(), cursor: Cursor::default(), more: false, now };
    match &request.scope {
        Scope::Due => {}
        // Asking for nothing tells the time.
        Scope::Slots { slots, .. } if slots.is_empty() => return Ok(fetched),
        _ => return Err(unsupported("rows of the layout flowcatalyst have no numbers to be read by")),
    }
    let by_status = by_status(session, sql).await?;
    let parts = [("{youngest}", youngest_sql(Some(now), request.skip_recent)), ("{by_status}", by_status)];
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let query = session.query(fill(&sql.items_fetch_due, &parts)).bind(limit);
    let found = query.fetch_all(&mut session.connection).await?;
    let mut bytes = 0_usize;
    for row in &found {
        if fetched.rows.len() >= request.rows || (bytes >= request.bytes && !fetched.rows.is_empty()) {
            fetched.more = true;
            break;
        }
        let row = Row { token: Token::default(), ..read_item(row).into_row() };
        bytes = bytes.saturating_add(row.event.as_ref().map_or(0, |event| event.payload().size()));
        fetched.rows.push(row);
    }
    Ok(fetched)
}

/// Gives back what was claimed too long ago.
pub(crate) async fn reap(session: &mut Session, sql: &Sql, request: &Reap) -> Result<u64, Failure> {
    let now = crate::time::now_sql(request.now.map(whole));
    let query = session.query(fill(&sql.items_reap, &[("{now}", now)]));
    let query = query.bind(micros_back(request.older_than));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    Ok(query.execute(&mut session.connection).await?.rows_affected())
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
