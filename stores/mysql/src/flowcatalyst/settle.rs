//! Applying outcomes to items that are still claimed at the time the caller's claim was made: one short transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use pillarbox::model::{GroupKey, stored_error};
use pillarbox::port::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled};

use super::row::whole;
use crate::connection::Session;
use crate::error::Failure;
use crate::fetch::clock;
use crate::row::{text_of, time_of};
use crate::settle::block_groups;
use crate::sql::{Sql, fill, places};
use crate::time::{literal, now_sql};

pub(crate) async fn settle(session: &mut Session, sql: &Sql, request: &Settle) -> Result<Settled, Failure> {
    if request.outcomes.is_empty() && !matches!(request.fence, Fence::Node(_)) {
        return Ok(Settled { held: true, stale: Vec::new(), reused: false });
    }
    session.begin().await?;
    if let Fence::Node(node) = &request.fence {
        let text = fill(&sql.node_lock, &[("{now}", now_sql(request.now))]);
        let query = session.query(text).bind(node.to_string());
        if query.fetch_optional(&mut session.connection).await?.is_none() {
            return Ok(Settled { held: false, stale: (0..request.outcomes.len()).collect(), reused: false });
        }
    }
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let held = claimed(session, sql, &request.outcomes).await?;
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
    let stale = (0..request.outcomes.len()).filter(|place| !held.contains(place)).collect();
    Ok(Settled { held: true, stale, reused: false })
}

/// The places of outcomes whose items are claimed as told; their rows are locked then.
async fn claimed(session: &mut Session, sql: &Sql, outcomes: &[Outcome]) -> Result<BTreeSet<usize>, Failure> {
    if outcomes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let text = fill(&sql.items_settle_find, &[("{ids}", places(outcomes.len()))]);
    let query = outcomes.iter().fold(session.once(text), |query, outcome| query.bind(outcome.id.to_string()));
    let found = query.fetch_all(&mut session.connection).await?;
    let found: HashMap<&str, Option<Timestamp>> = found
        .iter()
        .filter(|row| text_of(row, 1) == Some("PROCESSING"))
        .filter_map(|row| Some((text_of(row, 0)?, time_of(row, 2))))
        .collect();
    let is = |outcome: &Outcome| {
        let at = found.get(outcome.id.as_str()).copied().flatten();
        at.is_some_and(|at| at.as_microsecond() == outcome.token.0)
    };
    Ok(outcomes.iter().enumerate().filter(|(_, outcome)| is(outcome)).map(|(place, _)| place).collect())
}

/// What becomes of some items: those whose outcomes say the same.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Becoming {
    Deleted,
    Changed { status: &'static str, ends: bool, error: Option<Option<String>>, counted: i64 },
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
    let changed = |status, ends, error, counted| Becoming::Changed { status, ends, error, counted };
    match change {
        Change::Done if on_done == OnDone::Delete => Becoming::Deleted,
        Change::Done => changed("COMPLETED", true, Some(None), 0),
        // The claim began an attempt, which becomes a retry only here.
        Change::Retry { error, counts, .. } => {
            changed("PENDING", false, Some(Some(stored_error(error))), 1 + count(*counts))
        }
        Change::Dead { error, counts, .. } => {
            changed("FAILED", true, Some(Some(stored_error(error))), count(*counts))
        }
        Change::Attempt => changed("PROCESSING", false, None, 1),
        Change::Untried => changed("PENDING", false, None, -1),
        // There is no column for a time to wait until.
        Change::Delay | Change::Release => changed("PENDING", false, None, 0),
        // A claim has no end that could be moved.
        Change::Extend { .. } => changed("PROCESSING", false, None, 0),
    }
}

impl Step {
    async fn run(self, session: &mut Session, sql: &Sql, now: Timestamp) -> Result<(), Failure> {
        let ids = ("{ids}", places(self.ids.len()));
        let query = match &self.becoming {
            Becoming::Deleted => session.once(fill(&sql.items_delete, &[ids])),
            Becoming::Changed { status, ends, error, counted } => {
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
                query.bind(*counted)
            }
        };
        let query = self.ids.into_iter().fold(query, |query, id| query.bind(id));
        query.execute(&mut session.connection).await?;
        Ok(())
    }
}

const fn count(counts: Counts) -> i64 {
    match counts {
        Counts::One => 1,
        Counts::None => 0,
        Counts::Back => -1,
    }
}
