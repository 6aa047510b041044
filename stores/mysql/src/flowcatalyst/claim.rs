//! Claiming items: the time of the claim is its token, so it is later with each claim, by a second if need be.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Row, Token};
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Scope};
use pillarbox_store_kit::{Light, read_item};
use sqlx::mysql::MySqlRow;

use super::row::now_sql;
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::clock;
use crate::probe::Locking;
use crate::row::{read_all, text_of, told_now};
use crate::sql::{Sql, fill, places};
use crate::time::{literal, youngest_sql};

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
        ("{most}", request.bytes.at_once(request.rows).to_string()),
    ];
    session.begin().await?;
    let query = session.query(fill(&sql.items_claim_find, &parts));
    let query = query.bind(i64::try_from(request.rows).unwrap_or(i64::MAX));
    let found = query.fetch_all(&mut session.connection).await?;
    let Some(now) = told_now(&found) else { return Ok(Vec::new()) };
    let items = load(session, sql, read_light(&found, &request.bytes), &request.bytes).await?;
    mark(session, sql, items, now).await
}

/// Items of which contents may have been left out.
pub(super) fn read_light(rows: &[MySqlRow], limits: &ByteLimits) -> Vec<Light<Item>> {
    read_all(rows, |decoder, values| read_item(decoder, values, limits))
}

/// The first of the items that were found, up to the limit in bytes, with all their contents. What does not wait any more
/// is not among them.
pub(super) async fn load(
    session: &mut Session,
    sql: &Sql,
    found: Vec<Light<Item>>,
    limits: &ByteLimits,
) -> Result<Vec<Item>, Failure> {
    let fitting = limits.fitting(found.iter().map(|light| light.get().bytes));
    let (mut items, mut large) = (Vec::with_capacity(fitting), Vec::new());
    for light in found.into_iter().take(fitting) {
        if let Light::Large(item) = &light {
            large.push(item.id.clone());
        }
        items.push(light.into_inner());
    }
    if large.is_empty() {
        return Ok(items);
    }
    let parts = [("{most}", limits.row.to_string()), ("{ids}", places(large.len()))];
    let query = session.once(fill(&sql.items_large, &parts));
    let query = large.iter().fold(query, |query, id| query.bind(id.clone()));
    let loaded = query.fetch_all(&mut session.connection).await?;
    let loaded = read_light(&loaded, limits).into_iter().map(Light::into_inner);
    let mut loaded: HashMap<String, Item> = loaded.map(|item| (item.id.clone(), item)).collect();
    let large: HashSet<String> = large.into_iter().collect();
    items.retain_mut(|item| match large.contains(&item.id) {
        true => loaded.remove(&item.id).map(|whole| *item = whole).is_some(),
        false => true,
    });
    Ok(items)
}

/// TiDB takes SKIP LOCKED and no lock: there claims wait for each other.
pub(crate) fn locking(session: &Session) -> Locking {
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
    let parts = [
        ("{youngest}", youngest_sql(Some(now), request.skip_recent)),
        ("{by_status}", by_status),
        ("{most}", request.bytes.at_once(request.rows).to_string()),
    ];
    let limit = i64::try_from(request.rows).unwrap_or(i64::MAX).saturating_add(1);
    let query = session.query(fill(&sql.items_fetch_due, &parts)).bind(limit);
    let found = query.fetch_all(&mut session.connection).await?;
    let light = read_light(&found[..found.len().min(request.rows)], &request.bytes);
    let fitting = request.bytes.fitting(light.iter().map(|light| light.get().bytes));
    fetched.more = fitting < found.len();
    let items = load(session, sql, light, &request.bytes).await?;
    fetched.rows = items.into_iter().map(|item| Row { token: Token::default(), ..item.into_row() }).collect();
    Ok(fetched)
}

fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
