//! One store under a sequence: makes the calls and tells the answers in shared names.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillarbox::Event;
use pillarbox::model::{
    EventId, GroupKey, Lane, NewRow, NodeId, OwnerId, Placement, Seq, Slot, SlotSet, When,
};
use pillarbox::port::{
    Admin, ByteLimits, Cancel, Change, Claim, Cursor, Discard, Fence, Fetch, GroupChange, Heartbeat,
    HeldGroups, HeldSlot, Joins, List, Membership, Outcome, Promote, Purge, ReadScope, Reap, Recover,
    Register, Replay, Scope, Select, Settle, StoreError, Take, Write,
};
use pillarbox_conformance::Fixture;

use super::generate::NODES;
use super::joins;
use super::names::Names;
use super::step::*;

/// Answers of calls that found nothing to do.
const IDLE: [&str; 16] = [
    "0",
    "[]",
    "false",
    "more false",
    "not a member",
    "does not lead",
    "error",
    "Settled { held: false",
    "Promoted { moved: 0",
    "Unchanged",
    "NoSuchJoin",
    "NoSuchMessage",
    "NotAMember",
    "AlreadyWaiting",
    "Ended",
    "Full",
];

type Told = Result<Vec<String>, StoreError>;

/// A store, and what was learnt of it.
pub(crate) struct World {
    fixture: Fixture,
    names: Names,
    give: BTreeMap<u8, Vec<Slot>>,
    epoch: i64,
    /// The node that was last told that it holds the first slot.
    leader: u8,
    /// Whether joins are compared: both stores have them.
    pub(crate) joins: bool,
    /// How often each kind of call found something to do.
    pub(crate) effects: BTreeMap<&'static str, usize>,
}

impl World {
    pub(crate) fn new(fixture: Fixture) -> Self {
        Self {
            joins: fixture.store.native().is_some_and(|store| store.joins().is_some()),
            fixture,
            names: Names::default(),
            give: BTreeMap::new(),
            epoch: 0,
            leader: 0,
            effects: BTreeMap::new(),
        }
    }

    /// Makes a call and tells the answer, and all that is in the store after it.
    pub(crate) async fn tell(&mut self, step: &Step) -> Vec<String> {
        let mut told = match self.call(&step.call, time(step.at)).await {
            Ok(lines) => lines,
            Err(error) => vec![format!("error {}", error.kind().as_str())],
        };
        let had_effect = !told.iter().all(|line| IDLE.iter().any(|idle| line.starts_with(idle)));
        *self.effects.entry(step.call.name()).or_default() += usize::from(had_effect);
        told.push("then".to_owned());
        match self.everything().await {
            Ok(lines) => told.extend(lines),
            Err(error) => told.push(format!("error {error:?}")),
        }
        if self.joins {
            let fired = told.iter().any(|line| line.contains("fired: Some"));
            *self.effects.entry("a join that fired").or_default() += usize::from(fired);
        }
        told
    }

    fn admin(&self) -> &dyn Admin {
        self.fixture.store.admin()
    }

    fn joins(&self) -> Option<&dyn Joins> {
        self.fixture.store.native().and_then(|store| store.joins()).filter(|_| self.joins)
    }

    fn node_of(&self, by: By) -> NodeId {
        match by {
            By::Node(number) => node_id(number),
            By::Leader => node_id(self.leader),
        }
    }

    fn fence_of(&self, spec: &FenceSpec) -> Fence {
        match spec {
            FenceSpec::Node(by) => Fence::Node(self.node_of(*by)),
            FenceSpec::Owner(owner) => Fence::Owner(owner_id(*owner)),
            FenceSpec::Open => Fence::Open,
        }
    }

    async fn call(&mut self, call: &Call, now: Timestamp) -> Told {
        match call {
            Call::Write(rows) => self.write(rows, now).await,
            Call::FetchSlots { lanes, after, limits } => {
                self.fetch_slots(lanes, after.as_deref(), *limits, now).await
            }
            Call::FetchGroup { group, lane, from, limits } => {
                let Some(slot) = lane.map(Slot).or_else(|| self.names.home_of(group)) else {
                    return Ok(vec![]);
                };
                let from = from.as_ref().map_or(Seq(0), |id| self.names.known(id, 0).0);
                let scope = Scope::Group { slot, group: GroupKey::new(group.as_str()), from };
                self.fetch(scope, *limits, now).await.map(|(told, _)| told)
            }
            Call::FetchDue { limits } => self.fetch(Scope::Due, *limits, now).await.map(|(told, _)| told),
            Call::Claim { from, owner, lease_s, limits } => {
                let request = Claim {
                    from: *from,
                    topics: std::sync::Arc::default(),
                    owner: owner_id(*owner),
                    lease: Duration::from_secs(*lease_s),
                    rows: limits.rows,
                    bytes: ByteLimits::NONE,
                    skip_recent: Duration::from_secs(limits.skip_recent_s),
                    now: Some(now),
                };
                let rows = self.fixture.native().claim(request).await?;
                Ok(rows.iter().map(|row| self.names.row(row)).collect())
            }
            Call::Reap { older_than_s } => {
                let older_than = Duration::from_secs(*older_than_s);
                let reaped =
                    self.fixture.native().reap(Reap { older_than, rows: 100_000, now: Some(now) }).await?;
                Ok(vec![reaped.to_string()])
            }
            Call::Take { .. } | Call::Recover { .. } => self.lead(call, now).await,
            Call::Settle { fence, outcomes, on_done, repeats } => {
                let request = Settle {
                    fence: self.fence_of(fence),
                    outcomes: self.outcomes(outcomes).into(),
                    on_done: *on_done,
                    repeats: repeats.map(time),
                    now: Some(now),
                };
                Ok(vec![format!("{:?}", self.fixture.store.settle(request).await?)])
            }
            Call::ChangeJoin { join, change } => match self.joins() {
                Some(joins) => joins::change(joins, *join, change, now).await,
                None => Ok(vec![]),
            },
            Call::Promote { node, lane, order, rows } => {
                let request = Promote {
                    node: node_id(*node),
                    lane: Lane(*lane),
                    order: *order,
                    rows: *rows,
                    now: Some(now),
                };
                Ok(vec![format!("{:?}", self.fixture.native().promote(request).await?)])
            }
            Call::Register { .. } | Call::Heartbeat { .. } | Call::Leave { .. } => {
                self.member(call, now).await
            }
            _ => self.operate(call, now).await,
        }
    }

    async fn write(&mut self, rows: &[RowSpec], now: Timestamp) -> Told {
        let rows = rows.iter().map(new_row).collect();
        let written = self.fixture.store.write(Write { rows, now: Some(now) }).await?;
        Ok(written
            .iter()
            .map(|one| {
                format!("{} {} fresh {} delayed {}", self.names.seq(one.seq), one.id, one.fresh, one.delayed)
            })
            .collect())
    }

    async fn fetch_slots(
        &mut self,
        lanes: &[i16],
        after: Option<&str>,
        limits: Limits,
        now: Timestamp,
    ) -> Told {
        let slots = SlotSet::new((0..64).chain(lanes.iter().copied()).map(Slot));
        let decided = after.map_or(Seq(0), |id| self.names.known(id, 0).0);
        let scope = Scope::Slots { slots, cursor: Cursor { decided, ..Cursor::default() } };
        let (mut told, cursor) = self.fetch(scope, limits, now).await?;
        // One beyond every number, as of an event that was never there, starts anew.
        assert!(cursor.decided >= decided || decided == Seq(i64::MAX), "the cursor fell");
        if told.last().is_some_and(|more| more == "more true") {
            told.push(format!("cursor {}", self.names.told(cursor.decided)));
        }
        Ok(told)
    }

    async fn fetch(
        &mut self,
        scope: Scope,
        limits: Limits,
        now: Timestamp,
    ) -> Result<(Vec<String>, Cursor), StoreError> {
        let request = Fetch {
            scope,
            rows: limits.rows,
            bytes: ByteLimits::of_total(limits.bytes),
            skip_recent: Duration::from_secs(limits.skip_recent_s),
            now: Some(now),
        };
        let fetched = self.fixture.native().fetch(request).await?;
        assert!(fetched.rows.windows(2).all(|pair| pair[0].seq < pair[1].seq), "numbers must grow");
        let mut told: Vec<String> = fetched.rows.iter().map(|row| self.names.row(row)).collect();
        told.push(format!("more {}", fetched.more));
        Ok((told, fetched.cursor))
    }

    /// Bytes are not compared: each store counts those of an item its own way.
    async fn lead(&mut self, call: &Call, now: Timestamp) -> Told {
        let (items, now) = (self.fixture.items(), Some(now));
        match call {
            Call::Take { by, after, except, rows, each, ungrouped, ungrouped_order } => {
                let request = Take {
                    node: self.node_of(*by),
                    after: after.as_deref().map(GroupKey::new),
                    except: except.iter().map(|group| GroupKey::new(group.as_str())).collect(),
                    rows: *rows,
                    bytes: ByteLimits::NONE,
                    each: *each,
                    ungrouped: *ungrouped,
                    ungrouped_order: *ungrouped_order,
                    now,
                };
                let taken = items.take(request).await?;
                let mut told: Vec<String> = taken.rows.iter().map(|row| self.names.row(row)).collect();
                if !taken.leads {
                    told.push("does not lead".to_owned());
                }
                Ok(told)
            }
            Call::Recover { by, older_than_s, except } => {
                let request = Recover {
                    node: self.node_of(*by),
                    older_than: Duration::from_secs(*older_than_s),
                    except: except.iter().map(|id| EventId::from_row(id.as_str())).collect(),
                    rows: 100_000,
                    now,
                };
                Ok(vec![items.recover(request).await?.to_string()])
            }
            other => panic!("{other:?} is no call of a leader"),
        }
    }

    /// Outcomes of different rows: a batch has each row at most once.
    fn outcomes(&self, specs: &[OutcomeSpec]) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = Vec::new();
        for spec in specs {
            let (seq, token) = self.names.known(&spec.id, spec.back);
            if outcomes.iter().all(|one| one.seq != seq) {
                outcomes.push(Outcome {
                    seq,
                    id: EventId::from_row(spec.another.as_ref().unwrap_or(&spec.id).as_str()),
                    token,
                    change: self.change(spec),
                });
            }
        }
        outcomes
    }

    fn change(&self, spec: &OutcomeSpec) -> Change {
        let error = format!("why {}", spec.id);
        match spec.change {
            ChangeSpec::Done => Change::Done,
            ChangeSpec::Retry { delay_s, counts, wait } => {
                Change::Retry { delay: Duration::from_secs(delay_s), error, counts, wait }
            }
            ChangeSpec::Dead { counts, blocks } => {
                let blocks = if blocks { self.names.group_of(&spec.id) } else { None };
                Change::Dead { error, counts, blocks }
            }
            ChangeSpec::Delay => Change::Delay,
            ChangeSpec::Attempt { attempts } => Change::Attempt { attempts },
            ChangeSpec::Waits => Change::Waits { error: "the endpoint is away".to_owned() },
            ChangeSpec::Release { attempts } => Change::Release { attempts },
            ChangeSpec::Extend { lease_s } => Change::Extend { lease: Duration::from_secs(lease_s) },
        }
    }

    async fn member(&mut self, call: &Call, now: Timestamp) -> Told {
        let (node, membership) = match call {
            Call::Register { node, lease_s } => {
                // The last of them does not poll.
                let reads = if *node + 1 == NODES { ReadScope::OwnLane } else { ReadScope::Share };
                let lease = Duration::from_secs(*lease_s);
                let join = Register {
                    node: node_id(*node),
                    label: format!("node {node}"),
                    reads,
                    lease,
                    now: Some(now),
                };
                (*node, Some(self.fixture.store.register(join).await?))
            }
            Call::Heartbeat { node, lease_s, trusted, release, groups, after, sweep } => {
                let request = Heartbeat {
                    node: node_id(*node),
                    lease: Duration::from_secs(*lease_s),
                    trusted: trusted.iter().copied().map(Slot).collect(),
                    release: match release {
                        Release::Named(slots) => slots.iter().copied().map(Slot).collect(),
                        Release::AsTold => self.give.get(node).cloned().unwrap_or_default(),
                    },
                    groups_seen: if matches!(groups, Seen::Latest) { self.epoch } else { 0 },
                    after: after.as_ref().map_or(Seq(0), |id| self.names.known(id, 0).0),
                    sweep: *sweep,
                    now: Some(now),
                };
                (*node, self.fixture.store.heartbeat(request).await?)
            }
            Call::Leave { node } => {
                self.fixture.store.leave(node_id(*node)).await?;
                (*node, None)
            }
            other => panic!("{other:?} is no call of a member"),
        };
        match membership {
            Some(membership) => {
                self.give.insert(node, membership.give.clone());
                if membership.held.iter().any(|held| held.slot == Slot(0)) {
                    self.leader = node;
                }
                self.epoch = membership.groups.as_ref().map_or(self.epoch, |groups| groups.epoch);
                Ok(vec![tell_membership(&membership, self.fixture.store.facts().slots)])
            }
            None => Ok(vec!["not a member".to_owned()]),
        }
    }

    async fn operate(&mut self, call: &Call, now: Timestamp) -> Told {
        let (by, now) = ("ann".to_owned(), Some(now));
        let answer = match call {
            Call::Replay { select, limit } => {
                let request = Replay { select: select_of(select), limit: *limit, by, now };
                self.admin().replay(request).await?.to_string()
            }
            Call::Discard { select, limit } => {
                let request = Discard { select: select_of(select), limit: *limit, by, now };
                self.admin().discard(request).await?.to_string()
            }
            Call::Cancel { ids } => {
                let ids = ids.iter().map(|id| EventId::from_row(id.as_str())).collect();
                let mut cancelled = self.admin().cancel(Cancel { ids, by, now }).await?;
                cancelled.sort_unstable();
                format!("{cancelled:?}")
            }
            Call::Purge { status, older_than_s } => {
                let older_than = Duration::from_secs(*older_than_s);
                let request = Purge { status: *status, older_than, limit: 100_000, now };
                self.admin().purge(request).await?.to_string()
            }
            Call::ChangeGroup { group, action } => {
                let (group, reason) = (GroupKey::new(group.as_str()), Some("because".to_owned()));
                let request = GroupChange { group, action: *action, reason, by, now };
                self.admin().change_group(request).await?.to_string()
            }
            Call::List { select, order, after, limit } => {
                let after_id = after.as_deref().map(EventId::from_row);
                let after = after.as_ref().map(|id| self.names.known(id, 0).0);
                let select = select_of(select);
                let count = self.admin().count(select.clone()).await?;
                let list = self
                    .admin()
                    .list(List { select, order: *order, after, after_id, limit: *limit, ..List::default() })
                    .await?;
                let ids: Vec<_> = list.iter().map(|record| &record.id).collect();
                format!("{count} {ids:?}")
            }
            _ => return self.look().await,
        };
        Ok(vec![answer])
    }

    /// What does not depend on the clock of either store.
    async fn look(&mut self) -> Told {
        let stats = self.admin().stats().await?;
        let mut told = vec![format!(
            "{:?} {:?} delayed {} {:?} free {} blocked {} paused {}",
            stats.events,
            stats.queue,
            stats.delayed,
            stats.dead_by_type,
            stats.free_slots,
            stats.blocked_groups,
            stats.paused_groups
        )];
        for node in self.admin().nodes().await? {
            told.push(format!(
                "{} {} {:?} {} {}",
                node.node, node.label, node.lane, node.slots, node.joined_at
            ));
        }
        let mut audit: Vec<String> =
            self.admin().audit(100_000).await?.iter().map(|entry| format!("{entry:?}")).collect();
        audit.sort_unstable();
        told.extend(audit);
        told.extend(self.histories().await?);
        Ok(told)
    }

    /// All rows, all held groups and all joins.
    async fn everything(&mut self) -> Told {
        let records = self.admin().list(List { limit: 100_000, ..List::default() }).await?;
        let mut told: Vec<String> = records.iter().map(|record| self.names.record(record)).collect();
        told.extend(self.admin().groups(HeldGroups::first()).await?.iter().map(|held| format!("{held:?}")));
        if let Some(joins) = self.joins() {
            told.extend(joins::everything(joins).await?);
        }
        Ok(told)
    }

    /// The failed attempts of all rows.
    pub(crate) async fn histories(&self) -> Told {
        let mut told = Vec::new();
        for record in self.admin().list(List { limit: 100_000, ..List::default() }).await? {
            let shown = self.admin().show(record.id).await?;
            let shown = shown.expect("a row that was listed");
            told.extend(shown.attempts.iter().map(|attempt| format!("{} {attempt:?}", shown.record.id)));
        }
        Ok(told)
    }
}

/// Whether it is ready depends on the hash, unless the node holds every slot of groups or none.
fn tell_membership(membership: &Membership, slots: i16) -> String {
    let groups = membership.held.iter().filter(|held| held.slot.0 < 64).count();
    let (ready, oldest) = match groups {
        all_or_none if [0, slots as usize].contains(&all_or_none) => {
            (Some(membership.ready), Some(membership.oldest))
        }
        _ => (None, None),
    };
    // A store may take any row's number for the bound of what was pending.
    let held = |held: &HeldSlot| {
        (held.slot.0, held.suspect, held.quarantine.map_or(0, |quarantine| quarantine.evictions))
    };
    format!(
        "{:?} held {:?} give {:?} nodes {} groups {:?} ready {ready:?} oldest {oldest:?} next {:?} now {}",
        membership.lane,
        membership.held.iter().map(held).collect::<Vec<_>>(),
        membership.give,
        membership.nodes,
        membership.groups,
        membership.next_due,
        membership.now
    )
}

fn new_row(spec: &RowSpec) -> NewRow {
    let payload = format!("\"{}\"", "x".repeat(spec.payload));
    let mut event = Event::text(spec.event_type, payload).id(spec.id.as_str()).occurred_at(time(0));
    if let Some(group) = &spec.group {
        event = event.group(group.as_str());
    }
    if let Some(number) = spec.aggregate {
        event = event.aggregate("order", number);
    }
    if let Some(number) = spec.message {
        event = event.message_id(format!("m{number}"));
    }
    if let Some(due) = spec.due {
        event = event.due(when(due));
    }
    if let Some(expires) = spec.expires {
        event = event.expires(when(expires));
    }
    let placement = match spec.place {
        Placed::Slot => Placement::Slot,
        Placed::Lane(lane) => Placement::Lane(Lane(lane)),
        Placed::Queue => Placement::Queue,
    };
    NewRow { event: event.build().expect("a valid event"), placement }
}

fn when(moment: Moment) -> When {
    match moment {
        Moment::At(seconds) => When::At(time(seconds)),
        Moment::In(seconds) => When::In(Duration::from_secs(seconds)),
    }
}

fn time(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_704_067_200 + seconds)
}

fn node_id(number: u8) -> NodeId {
    NodeId::from_random(u128::from(number) + 1)
}

fn owner_id(number: u8) -> OwnerId {
    OwnerId::new(format!("owner-{number}")).expect("a valid owner")
}

fn select_of(spec: &SelectSpec) -> Select {
    Select {
        ids: spec.ids.iter().map(|id| EventId::from_row(id.as_str())).collect(),
        statuses: spec.statuses.clone(),
        event_type: spec.event_type.map(str::to_owned),
        aggregate_type: spec.aggregate_type.map(str::to_owned),
        group: spec.group.as_ref().map(|group| GroupKey::new(group.as_str())),
        ended_before: spec.ended_before.map(time),
    }
}
