//! Claiming items: the time of a claim is its token, so it is at least a second later than that of the last.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::Row;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::port::ByteLimits;
use pillarbox_store_kit::{Light, read_item};
use sqlx::mysql::MySqlRow;

use crate::connection::Session;
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::probe::Locking;
use crate::row::{read_all, text_of};
use crate::sql::{Sql, fill, places};
use crate::time::literal;

/// Decodes items, some without contents that were too large to load at once.
pub(super) fn read_light(rows: &[MySqlRow], limits: &ByteLimits) -> Vec<Light<Item>> {
    read_all(rows, |decoder, values| read_item(decoder, values, limits))
}

/// The first of the found items that fit the byte limit, with all their contents. Items that are no longer
/// pending are left out.
pub(super) async fn load(
    session: &mut Session,
    sql: &Sql,
    found: Vec<Light<Item>>,
    limits: &ByteLimits,
) -> Result<Vec<Item>, DriverError> {
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

/// TiDB accepts SKIP LOCKED but then takes no lock, so on TiDB claims wait for each other.
pub(crate) fn locking(session: &Session) -> Locking {
    match session.server.dialect {
        Dialect::Tidb => Locking::Waits,
        Dialect::Mysql => Locking::Skips,
    }
}

/// Marks items as claimed that this transaction has locked, and commits.
pub(super) async fn mark(
    session: &mut Session,
    sql: &Sql,
    mut items: Vec<Item>,
    now: Timestamp,
) -> Result<Vec<Row>, DriverError> {
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

/// The index hint for reads in the order of claims, whatever the name of that index; empty if there is none.
pub(super) async fn by_status(session: &mut Session, sql: &Sql) -> Result<String, DriverError> {
    if let Some(words) = sql.by_status.get() {
        return Ok(words.clone());
    }
    let row = session.query(&*sql.items_index_name).fetch_optional(&mut session.connection).await?;
    let name = row.as_ref().and_then(|row| text_of(row, 0));
    // The index belongs to another program, so its name may contain anything.
    let name = name.filter(|name| !name.contains('`'));
    let words = name.map(|name| format!("FORCE INDEX (`{name}`)")).unwrap_or_default();
    Ok(sql.by_status.get_or_init(|| words).clone())
}
