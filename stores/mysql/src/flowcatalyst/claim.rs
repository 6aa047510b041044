//! Claiming items: the time of the claim is its token, so it is later with each claim, by a second if need be.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Row, Token};
use pillarbox::port::{ByteLimits, Claim, ClaimFrom, Cursor, ErrorKind, Fetch, Fetched, Scope};

use super::row::{NOW, now_sql, read_light};
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::clock;
use crate::probe::Locking;
use crate::row::{text_of, time_of};
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
    let Some(now) = found.first().and_then(|row| time_of(row, NOW)) else { return Ok(Vec::new()) };
    let items = load(session, sql, found.iter().map(read_light).collect(), &request.bytes).await?;
    mark(session, sql, items, now).await
}

/// The first of the items that were found, up to the limit in bytes, with all their contents. What does not wait any more
/// is not among them.
pub(super) async fn load(
    session: &mut Session,
    sql: &Sql,
    found: Vec<(Item, Option<usize>)>,
    limits: &ByteLimits,
) -> Result<Vec<Item>, Failure> {
    let fitting = limits.fitting(found.iter().map(|(item, left_out)| left_out.unwrap_or(item.bytes)));
    let (mut items, mut large) = (Vec::with_capacity(fitting), Vec::new());
    for (mut item, left_out) in found.into_iter().take(fitting) {
        match left_out {
            Some(size) if size > limits.row => item.set_aside(size, limits.row),
            Some(_) => large.push(item.id.clone()),
            None => {}
        }
        items.push(item);
    }
    if large.is_empty() {
        return Ok(items);
    }
    let parts = [("{most}", limits.row.to_string()), ("{ids}", places(large.len()))];
    let query = session.once(fill(&sql.items_large, &parts));
    let query = large.iter().fold(query, |query, id| query.bind(id.clone()));
    let loaded = query.fetch_all(&mut session.connection).await?;
    let loaded = loaded.iter().map(read_light).map(|(mut item, left_out)| {
        if let Some(size) = left_out {
            item.set_aside(size, limits.row);
        }
        (item.id.clone(), item)
    });
    let mut loaded: HashMap<String, Item> = loaded.collect();
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
    let light: Vec<(Item, Option<usize>)> = found.iter().take(request.rows).map(read_light).collect();
    let fitting = request.bytes.fitting(light.iter().map(|(item, left_out)| left_out.unwrap_or(item.bytes)));
    fetched.more = fitting < found.len();
    let items = load(session, sql, light, &request.bytes).await?;
    fetched.rows = items.into_iter().map(|item| Row { token: Token::default(), ..item.into_row() }).collect();
    Ok(fetched)
}

/// Gives back what was claimed too long ago.
fn unsupported(detail: &str) -> Failure {
    Failure::Refused(ErrorKind::Unsupported, detail.to_owned())
}
