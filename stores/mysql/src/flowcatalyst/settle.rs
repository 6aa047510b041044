//! Applying outcomes to items that are still claimed under the caller's token, in one short transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use pillarbox::model::{GroupKey, stored_error};
use pillarbox::port::{Change, Fence, OnDone, Outcome, Settle, Settled};

use super::row::whole;
use crate::connection::{Asked, Session};
use crate::error::DriverError;
use crate::fetch::clock;
use crate::probe::Locking;
use crate::row::{text_of, time_of};
use crate::settle::{block_groups, stored_count};
use crate::sql::{Sql, fill, places};
use crate::time::{literal, now_sql};

pub(crate) async fn settle(
    session: &mut Session,
    sql: &Sql,
    request: &Settle,
    locking: Locking,
) -> Result<Settled, DriverError> {
    if request.outcomes.is_empty() && !matches!(request.fence, Fence::Node(_)) {
        return Ok(Settled::all_but(Vec::new()));
    }
    session.begin().await?;
    if let Fence::Node(node) = &request.fence {
        let text = fill(&sql.node_lock, &[("{now}", now_sql(request.now))]);
        let query = session.query(text).bind(node.to_string());
        if query.fetch_optional(&mut session.connection).await?.is_none() {
            return Ok(Settled::lost(request.outcomes.len()));
        }
    }
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let locked = Claimed::lock(session, sql, &request.outcomes, locking).await?;
    let held = locked.held(&request.outcomes);
    let mut busy = BTreeSet::new();
    if locking == Locking::Skips && locked.0.len() < request.outcomes.len() {
        let seen = Claimed::look(session, sql, &request.outcomes).await?.held(&request.outcomes);
        busy = seen.into_iter().filter(|place| !locked.has(&request.outcomes[*place])).collect();
    }
    for step in steps(&request.outcomes, &held, request.on_done) {
        step.run(session, sql, now).await?;
    }
    let mut blocks: BTreeMap<String, (String, String)> = BTreeMap::new();
    for (place, outcome) in request.outcomes.iter().enumerate() {
        if let Change::Dead { error, blocks: Some(group), .. } = &outcome.change
            && held.contains(&place)
        {
            let head = (outcome.id.to_string(), stored_error(error));
            blocks.entry(GroupKey::as_str(group).to_owned()).or_insert(head);
        }
    }
    block_groups(&mut session.connection, sql, &blocks, now).await?;
    session.commit().await?;
    let unchanged = (0..request.outcomes.len()).filter(|place| !held.contains(place));
    let (busy, stale) = unchanged.partition(|place| busy.contains(place));
    Ok(Settled { busy, ..Settled::all_but(stale) })
}

/// Items that were found, each with the time of its claim if it is claimed.
struct Claimed(HashMap<String, Option<Timestamp>>);

impl Claimed {
    /// Locks the items of these outcomes, as far as possible.
    async fn lock(
        session: &mut Session,
        sql: &Sql,
        outcomes: &[Outcome],
        locking: Locking,
    ) -> Result<Self, DriverError> {
        let parts = [("{ids}", places(outcomes.len())), ("{skip_locked}", locking.words())];
        Self::find(session, fill(&sql.items_settle_find, &parts), outcomes).await
    }

    /// Reads the claimed items of these outcomes without locks.
    async fn look(session: &mut Session, sql: &Sql, outcomes: &[Outcome]) -> Result<Self, DriverError> {
        let text = fill(&sql.items_settle_busy, &[("{ids}", places(outcomes.len()))]);
        Self::find(session, text, outcomes).await
    }

    async fn find(session: &mut Session, text: String, outcomes: &[Outcome]) -> Result<Self, DriverError> {
        if outcomes.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let bind = |query: Asked, outcome: &Outcome| query.bind(outcome.id.to_string());
        let query = outcomes.iter().fold(session.once(text), bind);
        let found = query.fetch_all(&mut session.connection).await?;
        let since = |row| time_of(row, 2).filter(|_| text_of(row, 1) == Some("PROCESSING"));
        let claimed = found.iter().filter_map(|row| Some((text_of(row, 0)?.to_owned(), since(row))));
        Ok(Self(claimed.collect()))
    }

    fn has(&self, outcome: &Outcome) -> bool {
        self.0.contains_key(outcome.id.as_str())
    }

    /// The positions of the outcomes whose items are still claimed under the outcome's token.
    fn held(&self, outcomes: &[Outcome]) -> BTreeSet<usize> {
        let is = |outcome: &Outcome| {
            let at = self.0.get(outcome.id.as_str()).copied().flatten();
            at.is_some_and(|at| at.as_microsecond() == outcome.token.0)
        };
        outcomes.iter().enumerate().filter(|(_, outcome)| is(outcome)).map(|(place, _)| place).collect()
    }
}

/// The new state of items, and the key by which items with equal outcomes are updated together.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Becoming {
    Deleted,
    Changed { status: &'static str, ends: bool, error: Option<Option<String>>, retries: Option<i64> },
}

struct Step {
    becoming: Becoming,
    ids: Vec<String>,
}

fn steps(outcomes: &[Outcome], held: &BTreeSet<usize>, on_done: OnDone) -> Vec<Step> {
    let mut alike: BTreeMap<Becoming, Vec<String>> = BTreeMap::new();
    for place in held {
        let outcome = &outcomes[*place];
        alike.entry(becoming(&outcome.change, on_done)).or_default().push(outcome.id.to_string());
    }
    alike.into_iter().map(|(becoming, ids)| Step { becoming, ids }).collect()
}

fn becoming(change: &Change, on_done: OnDone) -> Becoming {
    let retries = change.retries().map(stored_count);
    let changed = |status, ends, error| Becoming::Changed { status, ends, error, retries };
    match change {
        Change::Done if on_done == OnDone::Delete => Becoming::Deleted,
        Change::Done => changed("COMPLETED", true, Some(None)),
        Change::Retry { error, .. } => changed("PENDING", false, Some(Some(stored_error(error)))),
        Change::Dead { error, .. } => changed("FAILED", true, Some(Some(stored_error(error)))),
        Change::Attempt { .. } => changed("PROCESSING", false, None),
        Change::Waits { error } => changed("PROCESSING", false, Some(Some(stored_error(error)))),
        // The table has no column for a due time.
        Change::Delay | Change::Release { .. } => changed("PENDING", false, None),
        // A claim of an item has no expiry that could be extended.
        Change::Extend { .. } => changed("PROCESSING", false, None),
    }
}

impl Step {
    async fn run(self, session: &mut Session, sql: &Sql, now: Timestamp) -> Result<(), DriverError> {
        let ids = ("{ids}", places(self.ids.len()));
        let query = match &self.becoming {
            Becoming::Deleted => session.once(fill(&sql.remove, &[ids])),
            Becoming::Changed { status, ends, error, retries } => {
                let ended = match ends {
                    true => format!("greatest({}, processed_at)", literal(whole(now))),
                    false => "processed_at".to_owned(),
                };
                let stored = if error.is_some() { "?" } else { "error_message" };
                let parts = [ids, ("{ended}", ended), ("{error}", stored.to_owned())];
                let query = session.once(fill(&sql.items_settle, &parts)).bind(*status);
                let query = match error {
                    Some(error) => query.bind(error.clone()),
                    None => query,
                };
                query.bind(*retries)
            }
        };
        let query = self.ids.into_iter().fold(query, |query, id| query.bind(id));
        query.execute(&mut session.connection).await?;
        Ok(())
    }
}
