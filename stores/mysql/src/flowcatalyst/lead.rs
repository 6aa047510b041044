//! The leader's work: taking the first rows of each group in turn, and recovering stuck rows.

use std::collections::{HashMap, HashSet};

use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{EventId, GroupKey, NodeId};
use pillarbox::port::{Order, Recover, Take, Taken};
use pillarbox_store_kit::Light;
use sqlx::mysql::MySqlRow;

use super::claim::{by_status, load, locking, mark, read_light};
use super::row::{now_sql, whole};
use crate::connection::Session;
use crate::error::DriverError;
use crate::row::{text_of, told_now};
use crate::sql::{Sql, fill, places, quoted, quoted_list};
use crate::time::micros_back;

/// The fewest and the most index entries that one page reads. If the last group of a page has more, the next
/// page starts behind that group.
const PAGE: (usize, usize) = (64, 2_048);
/// How many groups a statement excludes. With more, the server would read the excluded entries instead of
/// seeking past them.
const RANGES: usize = 900;

pub(crate) async fn take(session: &mut Session, sql: &Sql, request: &Take) -> Result<Taken, DriverError> {
    let by_status = by_status(session, sql).await?;
    let mut taking = Taking::new(sql, request, by_status);
    let text = [leads_sql(sql, request.node), taking.ungrouped_sql(), taking.page_sql()].join("; ");
    let mut sets = session.begin_with(&text).await?.into_iter();
    if sets.next().is_none_or(|leading| leading.is_empty()) {
        return Ok(Taken { leads: false, rows: Vec::new() });
    }
    taking.add_ungrouped(&sets.next().unwrap_or_default());
    let mut more = taking.add_page(&sets.next().unwrap_or_default());
    while more {
        let mut sets = session.results(taking.next_sql()).await?.into_iter();
        taking.add_group(&sets.next().unwrap_or_default());
        more = taking.add_page(&sets.next().unwrap_or_default());
    }
    let mut heads = taking.heads;
    let (mut found, mut now, mut asked, mut bytes) = (Vec::new(), None, 0, 0_usize);
    while asked < heads.len() && (found.is_empty() || !request.bytes.reached_by(bytes)) {
        let count = session.bounded(heads.len() - asked, &request.bytes);
        let rows = lock(session, sql, request, &heads[asked..asked + count]).await?;
        now = now.or(told_now(&rows));
        found.extend(read_light(&rows, &request.bytes));
        bytes = found.iter().map(|light| light.get().bytes).sum();
        asked += count;
    }
    let Some(now) = now else {
        return Ok(Taken { leads: true, rows: Vec::new() });
    };
    heads.truncate(asked);
    let kept = not_overtaking(heads, found, request.ungrouped_order);
    let items = load(session, sql, kept, &request.bytes).await?;
    let rows = mark(session, sql, items, now).await?;
    session.note_sizes(&rows);
    Ok(Taken { leads: true, rows })
}

/// Locks those of the found rows that are still pending and free.
async fn lock(
    session: &mut Session,
    sql: &Sql,
    request: &Take,
    heads: &[Head],
) -> Result<Vec<MySqlRow>, DriverError> {
    let parts = [
        ("{now}", now_sql(request.now)),
        ("{ids}", places(heads.len())),
        ("{skip_locked}", locking(session).words()),
        ("{most}", request.bytes.at_once(heads.len()).to_string()),
    ];
    let query = session.once(fill(&sql.items_take_lock, &parts));
    let query = heads.iter().fold(query, |query, head| query.bind(head.id.clone()));
    Ok(query.fetch_all(&mut session.connection).await?)
}

/// Releases items that were claimed too long ago and commits; returns how many.
///
/// The search takes no lock, and the items are then locked by key, as settles do. An update by status would
/// lock entries of the status index first, which settles lock last, and so could deadlock with them.
pub(crate) async fn recover(session: &mut Session, sql: &Sql, request: &Recover) -> Result<u64, DriverError> {
    let sets = session.begin_with(&leads_sql(sql, request.node)).await?;
    if sets.first().is_none_or(Vec::is_empty) {
        return Ok(0);
    }
    let (now, age_us) = (crate::time::now_sql(request.now.map(whole)), micros_back(request.older_than));
    let old = match request.older_than.is_zero() {
        true => "true".to_owned(),
        false => fill(&sql.items_stuck, &[("{now}", now), ("{age_us}", age_us.to_string())]),
    };
    let others = not_in("id", request.except.iter().map(EventId::as_str));
    let limit = request.rows.min(Take::MOST).to_string();
    let parts = [("{old}", old.clone()), ("{others}", others), ("{limit}", limit)];
    let found = ids(&session.results(fill(&sql.items_recover_find, &parts)).await?);
    if found.is_empty() {
        return Ok(0);
    }
    let skip_locked = locking(session).words();
    let parts = [("{ids}", found), ("{old}", old), ("{skip_locked}", skip_locked)];
    let sets = session.results(fill(&sql.items_recover_lock, &parts)).await?;
    let locked = ids(&sets);
    if locked.is_empty() {
        return Ok(0);
    }
    session.commit_with(&fill(&sql.items_recover, &[("{ids}", locked)])).await?;
    Ok(sets.iter().map(|rows| rows.len() as u64).sum())
}

/// The returned keys as an SQL list; empty if there are none.
fn ids(sets: &[Vec<MySqlRow>]) -> String {
    let ids: Vec<String> = sets.iter().flatten().filter_map(|row| text_of(row, 0)).map(quoted).collect();
    ids.join(", ")
}

fn leads_sql(sql: &Sql, node: NodeId) -> String {
    fill(&sql.items_leads, &[("{node_id}", node.to_string())])
}

fn not_in<'a>(column: &str, texts: impl Iterator<Item = &'a str>) -> String {
    let mut texts = texts.peekable();
    match texts.peek() {
        None => "true".to_owned(),
        Some(_) => format!("{column} NOT IN ({})", quoted_list(texts)),
    }
}

/// A row that is to be taken.
struct Head {
    id: String,
    group: Option<String>,
}

/// The rows to be taken, as far as they have been found.
struct Taking<'a> {
    sql: &'a Sql,
    request: &'a Take,
    by_status: String,
    rows: usize,
    page: usize,
    /// The SQL condition that excludes groups. It compares with the column's collation, which may treat
    /// different keys as equal.
    others: String,
    except: HashSet<&'a str>,
    heads: Vec<Head>,
    counts: HashMap<String, usize>,
    last: Option<String>,
}

impl<'a> Taking<'a> {
    fn new(sql: &'a Sql, request: &'a Take, by_status: String) -> Self {
        let rows = request.rows.min(Take::MOST);
        let except = request.except.iter().map(GroupKey::as_str);
        Self {
            sql,
            request,
            by_status,
            rows,
            page: if rows.min(request.each) == 0 { 0 } else { (rows * 2).clamp(PAGE.0, PAGE.1) },
            others: not_in("message_group", except.clone().take(RANGES)),
            except: except.collect(),
            heads: Vec::new(),
            counts: HashMap::new(),
            last: request.after.as_ref().map(|after| after.as_str().to_owned()),
        }
    }

    fn find_sql(&self, within: String, limit: usize) -> String {
        let parts =
            [("{by_status}", self.by_status.clone()), ("{within}", within), ("{limit}", limit.to_string())];
        fill(&self.sql.items_take_find, &parts)
    }

    fn ungrouped_sql(&self) -> String {
        let wanted = if self.request.after.is_none() { self.request.ungrouped.min(self.rows) } else { 0 };
        self.find_sql("message_group IS NULL".to_owned(), wanted)
    }

    fn page_sql(&self) -> String {
        let after = match &self.last {
            None => "message_group IS NOT NULL".to_owned(),
            Some(last) => format!("message_group > {}", quoted(last)),
        };
        self.find_sql(format!("{after} AND {}", self.others), self.page)
    }

    /// The first rows of the group in which the last page ended, because the page may have cut it, and the
    /// page of groups behind it.
    fn next_sql(&self) -> String {
        let last = self.last.as_deref().unwrap_or_default();
        let group = format!("message_group = {}", quoted(last));
        format!("{}; {}", self.find_sql(group, self.request.each.min(self.rows)), self.page_sql())
    }

    fn add_ungrouped(&mut self, rows: &[MySqlRow]) {
        let ids = rows.iter().filter_map(|row| text_of(row, 0));
        self.heads.extend(ids.map(|id| Head { id: id.to_owned(), group: None }));
    }

    /// Adds the first rows of each group in a page. Returns whether to read another page.
    fn add_page(&mut self, rows: &[MySqlRow]) -> bool {
        let before = self.last.clone();
        self.add(rows);
        self.heads.len() < self.rows && rows.len() == self.page && self.page > 0 && self.last != before
    }

    /// Adds the first rows of a group, and drops the rows of this group that came from a page.
    fn add_group(&mut self, rows: &[MySqlRow]) {
        let last = self.last.clone();
        self.heads.retain(|head| head.group.is_none() || head.group != last);
        self.counts.remove(last.as_deref().unwrap_or_default());
        self.add(rows);
        self.last = last;
    }

    fn add(&mut self, rows: &[MySqlRow]) {
        for row in rows {
            let (Some(id), Some(group)) = (text_of(row, 0), text_of(row, 1)) else { continue };
            if self.last.as_deref() != Some(group) {
                self.last = Some(group.to_owned());
            }
            let is_held = text_of(row, 2) == Some("1");
            if is_held || self.except.contains(group) || self.heads.len() >= self.rows {
                continue;
            }
            let count = self.counts.entry(group.to_owned()).or_default();
            if *count < self.request.each {
                *count += 1;
                self.heads.push(Head { id: id.to_owned(), group: Some(group.to_owned()) });
            }
        }
    }
}

/// The locked rows, except rows that would overtake: a row is dropped if an earlier row of its group was not
/// locked. Rows without a group count as one group if their order is kept.
fn not_overtaking(heads: Vec<Head>, found: Vec<Light<Item>>, ungrouped: Order) -> Vec<Light<Item>> {
    let items = found.into_iter().map(|light| (light.get().id.clone(), light));
    let mut items: HashMap<String, _> = items.collect();
    let (mut kept, mut stopped) = (Vec::with_capacity(heads.len()), HashSet::new());
    for Head { id, group } in heads {
        let ordered = group.is_some() || ungrouped == Order::PerGroup;
        match items.remove(&id) {
            Some(item) if !ordered || !stopped.contains(&group) => kept.push(item),
            None => drop(stopped.insert(group)),
            Some(_) => {}
        }
    }
    kept
}
