//! Short ways to say what cases do: rows, times, and the calls with most fields at their usual value.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillarbox::model::{
    Event, EventBuilder, EventId, GroupKey, JoinId, Lane, NewRow, NodeId, OwnerId, Placement, Record, Row,
    Slot, SlotSet, StepState, Written,
};
use pillarbox::port::{
    ByteLimits, Change, Claim, ClaimFrom, Counts, Cursor, Fence, Fetch, Fetched, GroupAction, GroupChange,
    Heartbeat, HeldGroup, JoinAction, JoinChange, JoinChanged, JoinShown, Joins, Membership, OnDone, Outcome,
    ReadScope, Register, Replay, Scope, Select, Settle, Settled, StoreError, Table, Wait, Write,
};

use tokio::task::JoinSet;

use crate::case::Checked;
use crate::harness::{Ending, Fixture, Work, Worked};

/// The lease of nodes and claims, unless a case is about leases.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// More rows than any case writes.
pub(crate) const MANY: usize = 100_000;

/// No outcome was stale.
pub(crate) const NONE: [usize; 0] = [];

/// No slot at all.
pub(crate) const NO_SLOTS: [i16; 0] = [];

type Answered<T> = Result<T, StoreError>;

/// So many seconds into the cases' own time.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_704_067_200 + seconds)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn id(text: &str) -> EventId {
    EventId::from_row(text)
}

pub(crate) fn join_id(text: &str) -> JoinId {
    JoinId::from_row(text)
}

pub(crate) fn group(key: &str) -> GroupKey {
    GroupKey::new(key)
}

pub(crate) fn node(number: u128) -> NodeId {
    NodeId::from_random(number)
}

pub(crate) fn owner(name: &str) -> OwnerId {
    OwnerId::new(name).expect("a valid owner")
}

/// An event with this id.
pub(crate) fn event(id: &str) -> EventBuilder {
    Event::text("order-placed", "{}").id(id)
}

fn placed(builder: EventBuilder, placement: Placement) -> NewRow {
    NewRow { event: builder.build().expect("a valid event"), placement }
}

pub(crate) fn in_slot(builder: EventBuilder) -> NewRow {
    placed(builder, Placement::Slot)
}

pub(crate) fn in_lane(builder: EventBuilder, lane: i16) -> NewRow {
    placed(builder, Placement::Lane(Lane(lane)))
}

pub(crate) fn in_queue(builder: EventBuilder) -> NewRow {
    placed(builder, Placement::Queue)
}

/// Ungrouped rows with these ids.
pub(crate) fn plain(ids: &[&str]) -> Vec<NewRow> {
    ids.iter().map(|id| in_slot(event(id))).collect()
}

/// Rows of one group with these ids.
pub(crate) fn grouped(group: &str, ids: &[&str]) -> Vec<NewRow> {
    ids.iter().map(|id| in_slot(event(id).group(group))).collect()
}

/// The ids of rows, in order.
pub(crate) fn ids(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

/// The ids of records, in order.
pub(crate) fn record_ids(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.id.as_str()).collect()
}

/// The slots a node holds.
pub(crate) fn held(membership: &Membership) -> Vec<i16> {
    membership.held.iter().map(|held| held.slot.0).collect()
}

/// Those it took from a node that was evicted.
pub(crate) fn suspects(membership: &Membership) -> Vec<i16> {
    membership.held.iter().filter(|held| held.suspect).map(|held| held.slot.0).collect()
}

/// Only these events.
pub(crate) fn only(ids: &[&str]) -> Select {
    Select { ids: ids.iter().map(|text| id(text)).collect(), ..Select::default() }
}

/// The first attempt has failed.
pub(crate) fn retry(delay: Duration) -> Change {
    retry_of(1, delay)
}

/// The attempt with this number has failed.
pub(crate) fn retry_of(attempt: u32, delay: Duration) -> Change {
    Change::Retry { delay, error: "no".to_owned(), counts: Counts::Made(attempt), wait: Wait::InPlace }
}

pub(crate) fn retry_later(delay: Duration) -> Change {
    Change::Retry { delay, error: "no".to_owned(), counts: Counts::Made(1), wait: Wait::Delayed }
}

pub(crate) fn dead() -> Change {
    Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: None }
}

pub(crate) fn dead_blocking(key: &str) -> Change {
    Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: Some(group(key)) }
}

/// The outcome of a row that was read or claimed.
pub(crate) fn outcome(row: &Row, change: Change) -> Outcome {
    Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change }
}

/// A read of everything in scope, with no limit.
pub(crate) fn fetch(scope: Scope, now: Timestamp) -> Fetch {
    Fetch { scope, rows: MANY, bytes: ByteLimits::NONE, skip_recent: Duration::ZERO, now: Some(now) }
}

/// A claim of at most so many rows.
pub(crate) fn claim(from: ClaimFrom, by: &str, rows: usize, now: Timestamp) -> Claim {
    Claim {
        topics: std::sync::Arc::default(),
        from,
        owner: owner(by),
        lease: LEASE,
        rows,
        bytes: ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: Some(now),
    }
}

/// A plain heartbeat.
pub(crate) fn heartbeat(number: u128, now: Timestamp) -> Heartbeat {
    Heartbeat {
        node: node(number),
        lease: LEASE,
        trusted: Vec::new(),
        release: Vec::new(),
        groups_seen: 0,
        after: pillarbox::model::Seq(0),
        sweep: false,
        now: Some(now),
    }
}

impl Fixture {
    /// The slots of groups, and the first lanes.
    pub(crate) fn every_slot(&self) -> SlotSet {
        SlotSet::new((0..self.store.facts().slots).chain(64..96).map(Slot))
    }

    pub(crate) async fn write(&self, rows: Vec<NewRow>, now: Timestamp) -> Answered<Vec<Written>> {
        self.store.write(Write { rows, now: Some(now) }).await
    }

    pub(crate) async fn read(&self, cursor: Cursor, now: Timestamp) -> Answered<Fetched> {
        self.native().fetch(fetch(Scope::Slots { slots: self.every_slot(), cursor }, now)).await
    }

    /// Every pending row of slots and lanes.
    pub(crate) async fn pending(&self) -> Answered<Vec<Row>> {
        Ok(self.read(Cursor::default(), at(1_000_000)).await?.rows)
    }

    pub(crate) async fn find(&self, event: &str) -> Answered<Option<Record>> {
        Ok(self.store.admin().show(id(event)).await?.map(|shown| shown.record))
    }

    pub(crate) async fn record(&self, event: &str) -> Answered<Record> {
        Ok(self.find(event).await?.unwrap_or_else(|| panic!("event {event} is gone")))
    }

    /// An outcome of an event as it is in the table now.
    pub(crate) async fn outcome(&self, event: &str, change: Change) -> Answered<Outcome> {
        let record = self.record(event).await?;
        Ok(Outcome { seq: record.seq, id: record.id, token: record.token, change })
    }

    pub(crate) async fn settle(
        &self,
        fence: Fence,
        outcomes: Vec<Outcome>,
        now: Timestamp,
    ) -> Answered<Settled> {
        let (outcomes, on_done) = (outcomes.into(), OnDone::Keep);
        self.store.settle(Settle { fence, outcomes, on_done, repeats: None, now: Some(now) }).await
    }

    /// Settles without a fence; whether it changed the row.
    pub(crate) async fn try_apply(&self, event: &str, change: Change, now: Timestamp) -> Answered<bool> {
        let outcome = self.outcome(event, change).await?;
        let settled = self.settle(Fence::Open, vec![outcome], now).await?;
        assert!(settled.held, "nothing was to be held");
        Ok(settled.stale.is_empty())
    }

    /// Settles without a fence, which must change the row.
    pub(crate) async fn apply(&self, event: &str, change: Change, now: Timestamp) -> Answered<()> {
        assert!(self.try_apply(event, change, now).await?, "{event} was not changed");
        Ok(())
    }

    /// Settles as done with the row deleted.
    pub(crate) async fn done_and_gone(&self, event: &str, now: Timestamp) -> Answered<()> {
        let outcomes = vec![self.outcome(event, Change::Done).await?].into();
        let settle =
            Settle { fence: Fence::Open, outcomes, on_done: OnDone::Delete, repeats: None, now: Some(now) };
        assert_eq!(self.store.settle(settle).await?.stale, NONE);
        Ok(())
    }

    pub(crate) async fn claim(
        &self,
        from: ClaimFrom,
        by: &str,
        rows: usize,
        now: Timestamp,
    ) -> Answered<Vec<Row>> {
        self.native().claim(claim(from, by, rows, now)).await
    }

    pub(crate) async fn join(&self, number: u128, now: Timestamp) -> Answered<Membership> {
        let label = format!("node {number}");
        self.store
            .register(Register {
                node: node(number),
                label,
                reads: ReadScope::Share,
                lease: LEASE,
                now: Some(now),
            })
            .await
    }

    /// A heartbeat of a node that must be there.
    pub(crate) async fn heartbeat(&self, number: u128, now: Timestamp) -> Answered<Membership> {
        self.heartbeat_with(heartbeat(number, now)).await
    }

    pub(crate) async fn heartbeat_with(&self, heartbeat: Heartbeat) -> Answered<Membership> {
        let node = heartbeat.node;
        Ok(self.store.heartbeat(heartbeat).await?.unwrap_or_else(|| panic!("node {node} was evicted")))
    }

    pub(crate) async fn release(&self, number: u128, slots: &[i16], now: Timestamp) -> Answered<Membership> {
        let release = slots.iter().map(|slot| Slot(*slot)).collect();
        self.heartbeat_with(Heartbeat { release, ..heartbeat(number, now) }).await
    }

    /// Works in a transaction that commits, unless it is said otherwise.
    pub(crate) async fn work_with(&self, set: impl FnOnce(&mut Work)) -> Answered<Worked> {
        let mut work = Work::rows(Vec::new(), Ending::Commit);
        set(&mut work);
        self.transactions.as_ref().expect("transactions").work(work).await
    }

    pub(crate) async fn replay(&self, select: Select, now: Timestamp) -> Answered<u64> {
        let replay = Replay { select, limit: MANY, by: "ann".to_owned(), now: Some(now) };
        self.store.admin().replay(replay).await
    }

    pub(crate) async fn change_group(
        &self,
        key: &str,
        action: GroupAction,
        now: Timestamp,
    ) -> Answered<bool> {
        let reason = Some("because".to_owned());
        let change = GroupChange { group: group(key), action, reason, by: "ann".to_owned(), now: Some(now) };
        self.store.admin().change_group(change).await
    }

    /// The state of a group that is held back.
    pub(crate) async fn held_group(&self, key: &str) -> Answered<Option<HeldGroup>> {
        Ok(self.store.admin().held(vec![group(key)]).await?.pop())
    }
}

/// Settles until nothing is busy, as an engine does; also again where it lost against others. The places that changed nothing.
pub(crate) async fn settle_whole(store: &dyn Table, mut request: Settle) -> Answered<Vec<usize>> {
    const TRIES: usize = 10_000;
    let (mut places, mut stale): (Vec<usize>, _) = ((0..request.outcomes.len()).collect(), Vec::new());
    for _ in 0..TRIES {
        match store.settle(request.clone()).await {
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
            Ok(settled) => {
                stale.extend(settled.stale.iter().map(|place| places[*place]));
                request.outcomes =
                    settled.busy.iter().map(|place| request.outcomes[*place].clone()).collect();
                places = settled.busy.iter().map(|place| places[*place]).collect();
                if places.is_empty() {
                    return Ok(stale);
                }
            }
        }
        tokio::task::yield_now().await;
    }
    panic!("rows stay locked: {places:?}");
}

/// Joins, on stores that have them.
impl Fixture {
    pub(crate) fn joins(&self) -> &dyn Joins {
        self.native().joins().expect("joins")
    }

    /// Writes messages of the queue.
    pub(crate) async fn enqueue(&self, ids: &[&str]) -> Answered<()> {
        self.write(ids.iter().map(|id| in_queue(event(id))).collect(), at(0)).await.map(drop)
    }

    pub(crate) async fn change_join(
        &self,
        join: &str,
        action: JoinAction,
        now: Timestamp,
    ) -> Answered<JoinChanged> {
        self.joins().change_join(JoinChange { join: join_id(join), action, now: Some(now) }).await
    }

    /// Starts a join of so many steps, which must be new.
    pub(crate) async fn start_join(&self, join: &str, expected: u32, now: Timestamp) -> Answered<()> {
        let start = JoinAction::Start { grouping_key: None, expected, metadata: None };
        assert_eq!(self.change_join(join, start, now).await?, JoinChanged::Changed);
        Ok(())
    }

    pub(crate) async fn attach(&self, join: &str, ids: &[&str], now: Timestamp) -> Answered<JoinChanged> {
        let messages = ids.iter().map(|text| id(text)).collect();
        self.change_join(join, JoinAction::Attach { messages }, now).await
    }

    pub(crate) async fn report(
        &self,
        join: &str,
        message: &str,
        state: StepState,
        now: Timestamp,
    ) -> Answered<JoinChanged> {
        self.change_join(join, JoinAction::Report { message: id(message), state }, now).await
    }

    pub(crate) async fn join_shown(&self, join: &str) -> Answered<JoinShown> {
        Ok(self
            .joins()
            .show_join(join_id(join), MANY)
            .await?
            .unwrap_or_else(|| panic!("join {join} is gone")))
    }

    /// Attached, completed, failed.
    pub(crate) async fn counts(&self, join: &str) -> Answered<(u32, u32, u32)> {
        let join = self.join_shown(join).await?.join;
        Ok((join.attached, join.completed, join.failed))
    }
}

/// The rows that one of several got, one call after another, until there are none.
pub(crate) async fn until_dry<F>(mut next: impl FnMut() -> F) -> Answered<Vec<EventId>>
where
    F: Future<Output = Answered<Vec<Row>>>,
{
    let (mut mine, mut empty) = (Vec::new(), 0);
    // Rows that another has locked are skipped: an empty answer need not be the end.
    while empty < 20 {
        let rows = match next().await {
            Err(error) if error.is_transient() => Vec::new(),
            answer => answer?,
        };
        empty = if rows.is_empty() { empty + 1 } else { 0 };
        mine.extend(rows.into_iter().map(|row| row.id));
    }
    Ok(mine)
}

/// All of them together got so many rows, and each row once.
pub(crate) async fn each_once(mut tasks: JoinSet<Answered<Vec<EventId>>>, rows: usize) -> Checked {
    let mut seen: Vec<EventId> = Vec::new();
    while let Some(mine) = tasks.join_next().await {
        seen.extend(mine.expect("none of them panics")?);
    }
    assert_eq!(seen.len(), rows);
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), rows);
    Ok(())
}
