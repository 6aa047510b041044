//! Random sequences: the same for the same seed.

use fastrand::Rng;
use pillarbox::model::{FailedSteps, Layout, Status, StepState};
use pillarbox::port::{ClaimFrom, Counts, GroupAction, OnDone, Order, PageOrder, PurgeStatus, Wait};

use super::joins::JoinSpec;
use super::step::*;

const TYPES: [&str; 3] = ["paid", "sent", "Paid"];
pub(crate) const NODES: u8 = 4;
const OWNERS: u8 = 3;
const JOINS: u8 = 3;

/// A sequence of so many steps for stores of a layout.
pub(crate) fn sequence(layout: Layout, seed: u64, steps: usize) -> Vec<Step> {
    let mut maker = Maker {
        layout,
        rng: Rng::with_seed(seed),
        events: 0,
        queued: vec![],
        attached: vec![],
        settled: None,
        now: 0,
    };
    let first = Step { at: 0, call: Call::Register { node: 0, lease_s: maker.rng.u64(10..200) } };
    let mut sequence = vec![first];
    if layout == Layout::Native {
        sequence.extend((0..JOINS).map(|join| Step { at: 0, call: maker.start(join) }));
    }
    sequence.extend((sequence.len()..steps).map(|_| maker.step()));
    sequence
}

struct Maker {
    layout: Layout,
    rng: Rng,
    events: usize,
    /// What was enqueued.
    queued: Vec<String>,
    /// What was attached, and to which join.
    attached: Vec<(u8, String)>,
    /// The last settle, and when.
    settled: Option<(Call, i64)>,
    now: i64,
}

impl Maker {
    fn step(&mut self) -> Step {
        if self.layout == Layout::Flowcatalyst {
            // Some have columns of whole seconds: only within one would tokens differ from store to store.
            self.now += if self.chance(20) { self.rng.i64(50..200) } else { self.rng.i64(1..8) };
            return Step { at: self.now, call: self.call_of_items() };
        }
        self.now += match self.rng.u8(..40) {
            0 | 1 => -self.rng.i64(1..8),
            2 => self.rng.i64(50..200),
            3..=20 => 0,
            _ => self.rng.i64(1..10),
        };
        Step { at: self.now, call: self.call() }
    }

    fn call(&mut self) -> Call {
        match self.rng.u8(..120) {
            0..=17 => self.write(),
            18..=24 => {
                Call::FetchSlots { lanes: self.lanes(), after: self.some_event(3), limits: self.limits() }
            }
            25..=28 => Call::FetchGroup {
                group: self.group(),
                lane: self.chance(4).then(|| self.lane()),
                from: self.some_event(3),
                limits: self.limits(),
            },
            29..=32 => Call::FetchDue { limits: self.limits() },
            33..=40 => self.claim(),
            41..=62 => self.settle(),
            63..=67 => Call::Register { node: self.rng.u8(..NODES), lease_s: self.rng.u64(10..150) },
            68..=74 => self.heartbeat(),
            75..=76 => Call::Leave { node: self.rng.u8(..NODES) },
            77..=81 => Call::Promote {
                node: self.rng.u8(..NODES),
                lane: self.lane(),
                order: if self.rng.bool() { Order::PerGroup } else { Order::None },
                rows: self.rng.usize(..6),
            },
            82..=85 => Call::Replay { select: self.select(), limit: self.rng.usize(..9) },
            86..=88 => Call::Discard { select: self.select(), limit: self.rng.usize(..9) },
            89..=90 => Call::Cancel { ids: (0..self.rng.usize(1..3)).map(|_| self.event()).collect() },
            91..=92 => self.purge(),
            93..=95 => self.change_group(),
            96..=98 => self.list(),
            99..=101 => Call::Reap { older_than_s: self.rng.u64(..20) },
            102..=118 => self.change_join(),
            _ => Call::Look,
        }
    }

    fn change_join(&mut self) -> Call {
        let join = self.rng.u8(..JOINS);
        let change = match self.rng.u8(..20) {
            0..=1 => return self.start(join),
            2..=10 => {
                let messages: Vec<String> = (0..self.rng.usize(1..3)).map(|_| self.message()).collect();
                self.attached.extend(messages.iter().map(|message| (join, message.clone())));
                JoinSpec::Attach { messages }
            }
            11..=15 => return self.report(join),
            16..=18 => JoinSpec::Wait {
                failed_steps: if self.rng.bool() { FailedSteps::Fail } else { FailedSteps::Ignore },
                on_complete: !self.chance(4),
                on_fail: !self.chance(4),
                message: if self.chance(8) { self.event() } else { format!("c{join}") },
            },
            _ => JoinSpec::Cancel,
        };
        Call::ChangeJoin { join, change }
    }

    fn start(&mut self, join: u8) -> Call {
        let expected = [1, 1, 2, 3, 5][self.rng.usize(..5)];
        let key = self.chance(2).then_some("k");
        Call::ChangeJoin { join, change: JoinSpec::Start { expected, key } }
    }

    /// Of a step that was attached, as far as anyone knows.
    fn report(&mut self, join: u8) -> Call {
        let state = if self.chance(8) { StepState::Pending } else { StepState::ALL[self.rng.usize(1..3)] };
        let known = self.attached.len();
        let (join, message) = match known {
            0 => (join, self.message()),
            known => self.attached[known - 1 - self.rng.usize(..known.min(8))].clone(),
        };
        Call::ChangeJoin { join, change: JoinSpec::Report { message, state } }
    }

    /// A message of the queue that may be there, or any other event.
    fn message(&mut self) -> String {
        let known = self.queued.len();
        if known == 0 || self.chance(12) {
            return self.event();
        }
        self.queued[known - 1 - self.rng.usize(..known.min(10))].clone()
    }

    fn call_of_items(&mut self) -> Call {
        match self.rng.u8(..100) {
            0..=17 => self.write(),
            18..=37 => self.take(),
            38..=61 => self.settle(),
            62..=66 => Call::Recover {
                by: self.leader(),
                older_than_s: self.rng.u64(..40),
                except: (0..self.rng.usize(..3)).map(|_| self.event()).collect(),
            },
            67..=70 => Call::Register { node: self.rng.u8(..NODES), lease_s: self.rng.u64(10..150) },
            71..=77 => self.heartbeat(),
            78..=79 => Call::Leave { node: self.rng.u8(..NODES) },
            80..=83 => Call::Replay { select: self.select(), limit: self.rng.usize(..9) },
            84..=86 => Call::Discard { select: self.select(), limit: self.rng.usize(..9) },
            87..=89 => Call::Cancel { ids: (0..self.rng.usize(1..3)).map(|_| self.event()).collect() },
            90..=91 => self.purge(),
            92..=95 => self.change_group(),
            96..=98 => self.list(),
            _ => Call::Look,
        }
    }

    fn id(&self, number: usize) -> String {
        match self.layout {
            Layout::Native => format!("e{number}"),
            Layout::Flowcatalyst => format!("0HZXEQ5Y8{number:04}"),
        }
    }

    fn event_type(&mut self) -> &'static str {
        match self.layout {
            Layout::Native => TYPES[self.rng.usize(..TYPES.len())],
            Layout::Flowcatalyst => "EVENT",
        }
    }

    fn chance(&mut self, one_in: u8) -> bool {
        self.rng.u8(..one_in) == 0
    }

    /// An event that may be there, the younger the likelier.
    fn event(&mut self) -> String {
        if self.layout == Layout::Native && self.chance(15) {
            return format!("c{}", self.rng.u8(..JOINS));
        }
        let back = self.rng.usize(..=self.events.min(20)) * self.rng.usize(..=4) / 4;
        self.id(self.events.saturating_sub(back))
    }

    fn some_event(&mut self, one_in: u8) -> Option<String> {
        self.chance(one_in).then(|| self.event())
    }

    fn group(&mut self) -> String {
        let groups = match self.layout {
            Layout::Native => ["g", "h", "G", "order/1"],
            // In tables of others the column's own collation decides what is the same.
            Layout::Flowcatalyst => ["g", "h", "k", "order/1"],
        };
        groups[self.rng.usize(..4)].to_owned()
    }

    fn lane(&mut self) -> i16 {
        self.rng.i16(64..68)
    }

    fn lanes(&mut self) -> Vec<i16> {
        (64..68).filter(|_| self.rng.bool()).collect()
    }

    fn limits(&mut self) -> Limits {
        Limits {
            rows: self.few_or_all(),
            bytes: if self.chance(4) { self.rng.usize(..60) } else { usize::MAX },
            skip_recent_s: if self.chance(5) { self.rng.u64(1..20) } else { 0 },
        }
    }

    fn few_or_all(&mut self) -> usize {
        if self.chance(3) { self.rng.usize(..6) } else { 1_000 }
    }

    fn write(&mut self) -> Call {
        Call::Write((0..self.rng.usize(1..5)).map(|_| self.row()).collect())
    }

    fn row(&mut self) -> RowSpec {
        let id = if self.chance(25) {
            self.event()
        } else {
            self.events += 1;
            self.id(self.events)
        };
        if self.layout == Layout::Flowcatalyst {
            let (group, aggregate) =
                (self.chance(2).then(|| self.group()), self.chance(4).then(|| self.rng.u8(..3)));
            return RowSpec {
                id,
                event_type: self.event_type(),
                group,
                aggregate,
                message: None,
                place: Placed::Slot,
                due: None,
                expires: None,
                payload: self.rng.usize(..30),
            };
        }
        let place = match self.rng.u8(..8) {
            0 | 1 => Placed::Queue,
            2 | 3 => Placed::Lane(self.lane()),
            _ => Placed::Slot,
        };
        if matches!(place, Placed::Queue) {
            self.queued.push(id.clone());
        }
        RowSpec {
            id,
            event_type: TYPES[self.rng.usize(..TYPES.len())],
            group: self.chance(2).then(|| self.group()),
            aggregate: self.chance(4).then(|| self.rng.u8(..3)),
            message: self.chance(6).then(|| self.rng.u8(..6)),
            place,
            due: self.chance(4).then(|| self.moment()),
            expires: self.chance(6).then(|| self.moment()),
            payload: self.rng.usize(..30),
        }
    }

    fn moment(&mut self) -> Moment {
        if self.rng.bool() {
            Moment::At(self.now + self.rng.i64(-10..40))
        } else {
            Moment::In(self.rng.u64(..40))
        }
    }

    fn claim(&mut self) -> Call {
        Call::Claim {
            from: if self.rng.bool() { ClaimFrom::Queue } else { ClaimFrom::Events },
            owner: self.rng.u8(..OWNERS),
            lease_s: self.rng.u64(1..30),
            limits: self.limits(),
        }
    }

    fn take(&mut self) -> Call {
        Call::Take {
            by: self.leader(),
            after: self.chance(4).then(|| self.group()),
            except: if self.chance(4) { vec![self.group(), self.group()] } else { vec![] },
            rows: self.few_or_all(),
            each: self.few_or_all(),
            ungrouped: self.few_or_all(),
            ungrouped_order: if self.rng.bool() { Order::PerGroup } else { Order::None },
        }
    }

    /// Whoever leads, or sometimes any node.
    fn leader(&mut self) -> By {
        if self.chance(6) { By::Node(self.rng.u8(..NODES)) } else { By::Leader }
    }

    /// Outcomes, sometimes those of the last settle again, as if its answer had been lost.
    fn settle(&mut self) -> Call {
        if let (true, Some((Call::Settle { fence, outcomes, on_done, .. }, at))) =
            (self.chance(4), self.settled.clone())
        {
            return Call::Settle { fence, outcomes, on_done, repeats: Some(at) };
        }
        let settle = self.new_settle();
        self.settled = Some((settle.clone(), self.now));
        settle
    }

    fn new_settle(&mut self) -> Call {
        let fence = match (self.rng.u8(..3), self.layout) {
            (0, _) => FenceSpec::Open,
            (1, Layout::Native) => FenceSpec::Owner(self.rng.u8(..OWNERS)),
            (_, Layout::Native) => FenceSpec::Node(By::Node(self.rng.u8(..NODES))),
            (_, Layout::Flowcatalyst) => FenceSpec::Node(self.leader()),
        };
        let on_done = if self.rng.bool() { OnDone::Keep } else { OnDone::Delete };
        let outcomes = (0..self.rng.usize(1..5)).map(|_| self.outcome()).collect();
        let repeats = self.chance(6).then(|| self.now - self.rng.i64(0..20));
        Call::Settle { fence, outcomes, on_done, repeats }
    }

    fn outcome(&mut self) -> OutcomeSpec {
        let attempts = self.rng.u32(..6);
        let counts = if self.rng.bool() { Counts::Made(attempts) } else { Counts::NotMade(attempts) };
        let wait = if self.rng.bool() { Wait::InPlace } else { Wait::Delayed };
        let native = self.layout == Layout::Native;
        let change = match self.rng.u8(..if native { 12 } else { 11 }) {
            0 | 1 => ChangeSpec::Done,
            2 | 3 => ChangeSpec::Retry { delay_s: self.rng.u64(..20), counts, wait },
            4..=6 => ChangeSpec::Dead { counts, blocks: self.rng.bool() },
            7 => ChangeSpec::Delay,
            8 => ChangeSpec::Attempt { attempts },
            9 => ChangeSpec::Release { attempts },
            10 => ChangeSpec::Waits,
            _ => ChangeSpec::Extend { lease_s: self.rng.u64(1..60) },
        };
        let back = if self.chance(5) { self.rng.usize(1..3) } else { 0 };
        let id = if native && self.chance(4) { self.message() } else { self.event() };
        let another = if native { self.some_event(10) } else { None };
        OutcomeSpec { id, back, another, change }
    }

    fn heartbeat(&mut self) -> Call {
        let release = if self.rng.bool() {
            Release::AsTold
        } else {
            Release::Named((0..self.rng.usize(..3)).map(|_| self.rng.i16(0..68)).collect())
        };
        Call::Heartbeat {
            node: self.rng.u8(..NODES),
            lease_s: self.rng.u64(10..150),
            trusted: (0..self.rng.usize(..3)).map(|_| self.rng.i16(0..68)).collect(),
            release,
            groups: if self.rng.bool() { Seen::Latest } else { Seen::Nothing },
            after: self.some_event(2),
            sweep: self.rng.bool(),
        }
    }

    fn select(&mut self) -> SelectSpec {
        SelectSpec {
            ids: if self.chance(5) { (0..3).map(|_| self.event()).collect() } else { vec![] },
            statuses: Status::ALL.into_iter().filter(|_| self.rng.u8(..20) == 0).collect(),
            event_type: self.chance(8).then(|| self.event_type()),
            aggregate_type: self.chance(12).then(|| ["order", "__GLOBAL__"][self.rng.usize(..2)]),
            group: self.chance(10).then(|| self.group()),
            ended_before: self.chance(12).then(|| self.now - self.rng.i64(0..20)),
        }
    }

    fn purge(&mut self) -> Call {
        let status = [PurgeStatus::Done, PurgeStatus::Dead, PurgeStatus::Any][self.rng.usize(..3)];
        Call::Purge { status, older_than_s: self.rng.u64(..60) }
    }

    fn change_group(&mut self) -> Call {
        let actions = [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip];
        Call::ChangeGroup { group: self.group(), action: actions[self.rng.usize(..4)] }
    }

    fn list(&mut self) -> Call {
        let order = if self.rng.bool() { PageOrder::OldestFirst } else { PageOrder::NewestFirst };
        Call::List { select: self.select(), order, after: self.some_event(2), limit: self.rng.usize(..8) }
    }
}
