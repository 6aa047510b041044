//! Attaching messages to a join as its steps.

use std::collections::{BTreeSet, HashMap};

use pillarbox::model::{Counted, EventId, JoinRecord, Status, StepState};
use pillarbox::port::{JoinChange, JoinChanged};
use pillarbox::rules::new_steps;
use sqlx::mysql::MySqlRow;

use crate::error::DriverError;
use crate::joins::{Ended, locks, read_joins};
use crate::pipeline::Pipeline;
use crate::row::{text_number, text_of};
use crate::sql::{Sql, fill, list, quoted, quoted_list};
use crate::time::literal;

/// A locked message of the queue.
struct Step {
    seq: i64,
    state: StepState,
    /// Whether the message is or was a member of some join.
    marked: bool,
}

/// Attaches messages to a join.
///
/// The members are inserted before the join is locked. A settle under REPEATABLE READ also locks the gaps
/// next to its members, and then waits for the join; an attach that held the join and waited for such a gap
/// would deadlock with it. If the join has no room for the members, the caller rolls them back.
pub(crate) async fn attach(
    pipeline: &mut Pipeline<'_>,
    sql: &Sql,
    request: &JoinChange,
    messages: &[EventId],
) -> Result<JoinChanged, DriverError> {
    let mut attaching =
        Attaching { pipeline, sql, request, messages, steps: HashMap::new(), now: String::new() };
    let now = attaching.lock().await?;
    attaching.now = literal(now);
    // A message without the mark was never attached, unless it reuses the id of a deleted message. In that
    // case the insert fails on the primary key, and every message is checked.
    let unsure = attaching.unsure();
    let members = attaching.members(&unsure).await?;
    let (joins, fresh) = match attaching.add(&members).await {
        Err(failure) if failure.is_duplicate() => {
            let members = attaching.members(&messages.iter().collect::<Vec<_>>()).await?;
            attaching.add(&members).await?
        }
        added => added?,
    };
    let Some(join) = joins.first() else { return Ok(JoinChanged::NoSuchJoin) };
    let steps = match new_steps(join, fresh.iter().map(|message| (*message, attaching.state(message)))) {
        Ok(steps) => steps,
        Err(refused) => return Ok(refused),
    };
    let mut ended = Ended::default();
    *ended.of(&request.join) = Counted::attaching(steps.into_values());
    ended.add(attaching.pipeline, sql, joins, now);
    Ok(JoinChanged::Changed)
}

struct Attaching<'a, 'c> {
    pipeline: &'a mut Pipeline<'c>,
    sql: &'a Sql,
    request: &'a JoinChange,
    messages: &'a [EventId],
    steps: HashMap<String, Step>,
    now: String,
}

impl<'a> Attaching<'a, '_> {
    /// Locks the messages of the queue by sequence number, in the same order as a settle.
    async fn lock(&mut self) -> Result<jiff::Timestamp, DriverError> {
        let all = ("{ids}", quoted_list(self.messages.iter().map(EventId::as_str)));
        let find = fill(&self.sql.steps_find, std::slice::from_ref(&all));
        let (now, found) = self.pipeline.ask_at(self.sql, self.request.now, &[find]).await?;
        let seqs: BTreeSet<i64> = found.iter().flatten().map(|row| text_number(row, 0)).collect();
        let locked = fill(&self.sql.steps_lock, &[("{seqs}", list(&seqs)), all]);
        let locked = self.pipeline.ask(&[locked]).await?;
        self.note(&locked);
        // `steps_find` is a plain read: a message may have been renumbered since, or be newer than the
        // transaction's snapshot. A locking read by id finds both.
        let lost: Vec<&str> = self.unlocked().map(EventId::as_str).collect();
        if !lost.is_empty() {
            let seek = fill(&self.sql.steps_seek, &[("{ids}", quoted_list(lost))]);
            let locked = self.pipeline.ask(&[seek]).await?;
            self.note(&locked);
        }
        Ok(now)
    }

    fn unlocked(&self) -> impl Iterator<Item = &'a EventId> {
        self.messages.iter().filter(|message| !self.steps.contains_key(message.as_str()))
    }

    fn note(&mut self, locked: &[Vec<MySqlRow>]) {
        for row in locked.iter().flatten() {
            let state = StepState::of(Status::from_code(text_number(row, 2)).unwrap_or(Status::New));
            let step = Step { seq: text_number(row, 1), state, marked: text_number(row, 3) != 0 };
            self.steps.insert(text_of(row, 0).unwrap_or_default().to_owned(), step);
        }
    }

    fn unsure(&self) -> Vec<&'a EventId> {
        let unsure = |message: &&EventId| self.steps.get(message.as_str()).is_none_or(|step| step.marked);
        self.messages.iter().filter(unsure).collect()
    }

    /// The messages among these that are members of the join.
    async fn members(&mut self, messages: &[&EventId]) -> Result<BTreeSet<String>, DriverError> {
        if messages.is_empty() {
            return Ok(BTreeSet::new());
        }
        let ids = quoted_list(messages.iter().map(|message| message.as_str()));
        let parts = [("{id}", quoted(self.request.join.as_str())), ("{ids}", ids)];
        let found = self.pipeline.ask(&[fill(&self.sql.members_there, &parts)]).await?;
        Ok(found.iter().flatten().filter_map(|row| text_of(row, 0)).map(str::to_owned).collect())
    }

    /// Inserts the messages that are not members yet, if all of them are in the queue, then locks the join.
    /// Returns the join and the new members, each once and in the given order.
    async fn add(
        &mut self,
        members: &BTreeSet<String>,
    ) -> Result<(Vec<JoinRecord>, Vec<&'a EventId>), DriverError> {
        let fresh = self.fresh(members);
        if let Some((add, mark)) = self.adds(&fresh) {
            self.pipeline.push(add);
            self.pipeline.push(mark);
        }
        let locked = self.pipeline.ask(&[locks(self.sql, [&self.request.join])]).await?;
        Ok((read_joins(locked.first())?, fresh))
    }

    fn fresh(&self, members: &BTreeSet<String>) -> Vec<&'a EventId> {
        let mut seen = BTreeSet::new();
        let fresh = |message: &&EventId| {
            !members.contains(message.as_str()) && seen.insert(message.as_str().to_owned())
        };
        self.messages.iter().filter(fresh).collect()
    }

    /// The statements that insert members and mark their messages. None if there is no new member, or if one
    /// of them is not in the queue.
    fn adds(&self, fresh: &[&EventId]) -> Option<(String, String)> {
        let (mut rows, mut seqs) = (Vec::new(), BTreeSet::new());
        for message in fresh {
            let step = self.steps.get(message.as_str())?;
            let (join, message) = (quoted(self.request.join.as_str()), quoted(message.as_str()));
            rows.push(format!("({join}, {message}, {}, {})", step.state.code(), self.now));
            seqs.insert(step.seq);
        }
        let add = fill(&self.sql.members_add, &[("{rows}", rows.join(", "))]);
        let mark = fill(&self.sql.steps_mark, &[("{seqs}", list(&seqs))]);
        Some((add, mark)).filter(|_| !rows.is_empty())
    }

    /// The state of a message of the queue as a step.
    fn state(&self, message: &EventId) -> Option<StepState> {
        self.steps.get(message.as_str()).map(|step| step.state)
    }
}
