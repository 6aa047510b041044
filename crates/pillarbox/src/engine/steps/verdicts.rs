//! Verdicts: what the verdicts of a sink mean for the events, their groups and the endpoint.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::core::{Core, GroupDuringSettle};
use crate::engine::state::breaker::{LONGEST_AFTER, patience};
use crate::engine::state::groups::Hold;
use crate::engine::state::item::{Custody, Item, Job, Recorded};
use crate::engine::state::settings::OnDead;
use crate::engine::state::settle_queue::Unsettled;
use crate::model::GroupKey;
use crate::port::{Change, Counts, Source, Verdict, Wait};

/// The reason of a failure where the sink said nothing of the event.
const NO_VERDICT: &str = "the sink gave no verdict";

/// No retry policy puts an attempt off for longer.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest pause between tries of an event whose last attempt is put off.
const LONGEST_SPARE: Duration = Duration::from_secs(60);

/// Reads of groups that wait for their route are at least so far apart on average: a few times what one takes.
const GROUP_READ: Duration = Duration::from_millis(1);

/// A message that nobody listens to is tried again after its age, within these bounds.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What the verdict on one event means for those behind it in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Continue {
    Yes,
    No,
}

/// The batch that is being judged.
#[derive(Debug)]
struct SentTogether {
    /// Whether it was one event.
    lone: bool,
    /// How long its events wait because of the endpoint, once that is known.
    outage: Option<Duration>,
}

/// What is known of an endpoint that failed.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    /// How long it wants to be left alone.
    after: Option<Duration>,
    /// How long the event waits at least.
    pause: Duration,
    /// How many events the endpoint has accepted so far.
    accepted: u64,
}

impl Core {
    pub(in crate::engine) fn judge_all(&mut self, job: Job, verdicts: Vec<Verdict>, now: Instant) {
        if let (Some(first), true) = (job.items.first(), job.quarantined) {
            self.quarantine.finished(first.id());
        }
        let group = job.items.first().and_then(|item| item.group.clone());
        let size = job.items.len();
        let mut items = job.items.into_iter();
        let mut verdicts = verdicts.into_iter();
        let mut first = true;
        let mut sent = SentTogether { lone: size == 1, outage: None };
        while let Some(mut item) = items.next() {
            let verdict = match verdicts.next().unwrap_or(Verdict::Skipped) {
                // Nothing before it failed: a sink that skips it would be asked again at once, for ever.
                Verdict::Skipped if first => Verdict::Failed { error: NO_VERDICT.to_owned(), after: None },
                Verdict::Refused { error } if items.len() == 0 => Verdict::Failed { error, after: None },
                Verdict::Refused { .. } => {
                    self.breaker.answered();
                    let rest = std::iter::once(item).chain(items).collect();
                    return self.send_in_parts(group.as_ref(), rest, now);
                }
                verdict => verdict,
            };
            first = false;
            if matches!(verdict, Verdict::Unavailable { .. }) && size > 1 {
                // Whose fault it is, if anyone's, is told by a smaller batch.
                item.batch_cap = size / 2;
                items.as_mut_slice().iter_mut().for_each(|other| other.batch_cap = size / 2);
            }
            let alone = item.group.is_none();
            if self.judge(item, verdict, &mut sent, now) == Continue::No && !alone {
                break;
            }
        }
        let mut rest = Vec::new();
        for (item, verdict) in items.zip(verdicts.chain(std::iter::repeat(Verdict::Skipped))) {
            // What was taken behind a failure was taken: sending it again would bring no order back.
            if verdict == Verdict::Accepted {
                self.judge(item, verdict, &mut sent, now);
            } else {
                rest.push(item);
            }
        }
        self.back_to_queue(group.as_ref(), rest, now);
        self.group_back(group.as_ref(), now);
    }

    /// Some of these are at fault: halves of them tell whose it is.
    fn send_in_parts(&mut self, group: Option<&GroupKey>, mut items: Vec<Item>, now: Instant) {
        let cap = items.len() / 2;
        items.iter_mut().for_each(|item| item.batch_cap = cap);
        self.back_to_queue(group, items, now);
        self.group_back(group, now);
    }

    /// What follows a failed event in its group is released untouched.
    pub(in crate::engine) fn back_to_queue(
        &mut self,
        group: Option<&GroupKey>,
        rest: Vec<Item>,
        now: Instant,
    ) {
        let Some(key) = group else {
            return rest.into_iter().for_each(|item| self.buffer.push(item));
        };
        let Some(group) = self.groups.get_mut(key) else {
            return rest.into_iter().for_each(|item| self.drop_item(item, now));
        };
        for item in rest {
            group.insert(item);
        }
        // What has to wait does not wait in memory; a leader keeps what it has taken.
        let waits = group.until.is_some() && self.node.lane.is_some() && self.reads.rereads;
        let held = group.hold.is_some() || group.settling > 0 || waits;
        if held {
            for item in self.groups.unload(key) {
                self.drop_item(item, now);
            }
        }
        self.groups.place(key, now);
    }

    fn judge(&mut self, item: Item, verdict: Verdict, sent: &mut SentTogether, now: Instant) -> Continue {
        match verdict {
            Verdict::Accepted => {
                self.breaker.accepted();
                self.tally.success += 1;
                self.settle_later(item, Change::Done, GroupDuringSettle::Continues, now);
                Continue::Yes
            }
            Verdict::Settled => {
                self.breaker.accepted();
                self.tally.success += 1;
                self.leases.end(item.id(), item.token());
                self.forget_item(&item);
                Continue::Yes
            }
            Verdict::Failed { error, after } => {
                self.breaker.answered();
                self.fail(item, error, after, now)
            }
            Verdict::Refused { error } => {
                self.breaker.answered();
                self.fail(item, error, None, now)
            }
            Verdict::Rejected { error } => {
                self.breaker.answered();
                self.tally.failure += 1;
                self.die(item, error, Counts::One, true, now)
            }
            Verdict::NoRoute { route } if self.within_grace(&item, now) => {
                self.wait_for_a_listener(item, &route, now)
            }
            Verdict::NoRoute { route } => {
                self.die(item, format!("no listener for {route}"), Counts::None, true, now)
            }
            // What came back untried of a slot that is to be handed over is the next holder's.
            Verdict::Unavailable { after, .. } if self.slots.is_leaving(item.slot) => {
                self.outage(sent, after, now);
                self.drop_item(item, now);
                Continue::No
            }
            Verdict::Throttled { after, .. } => self.throttled(item, after, now),
            Verdict::RouteShut { .. } | Verdict::RouteUnavailable { .. }
                if self.slots.is_leaving(item.slot) =>
            {
                self.drop_item(item, now);
                Continue::No
            }
            Verdict::RouteShut { route, after } => self.route_shut(item, &route, after, now),
            Verdict::RouteUnavailable { error, after, accepted, .. } => {
                let pause = after.unwrap_or_default();
                self.endpoint_failed(item, error, Trouble { after, pause, accepted }, sent.lone, now)
            }
            Verdict::Skipped if self.slots.is_leaving(item.slot) => {
                self.drop_item(item, now);
                Continue::No
            }
            Verdict::Unavailable { error, after, .. } => {
                let accepted = self.breaker.accepted_count();
                let trouble = Trouble { after, pause: self.outage(sent, after, now), accepted };
                self.endpoint_failed(item, error, trouble, sent.lone, now)
            }
            Verdict::InFlight => self.leave_to_read(item, now),
            Verdict::Skipped => {
                self.put_back(item);
                Continue::No
            }
        }
    }

    /// Out of memory; a later read finds it if it is still pending.
    fn leave_to_read(&mut self, item: Item, now: Instant) -> Continue {
        match &item.group {
            Some(key) => {
                let group = self.groups.entry(key, item.slot);
                group.miss(item.seq);
                group.until = Some(now + self.settings.poll_interval);
                for other in self.groups.unload(key) {
                    self.drop_item(other, now);
                }
            }
            None => self.reads.reread_from(item.seq),
        }
        self.drop_item(item, now);
        Continue::No
    }

    fn put_back(&mut self, item: Item) {
        match item.group.clone() {
            Some(key) => self.groups.entry(&key, item.slot).insert(item),
            None => self.buffer.push(item),
        }
    }

    fn fail(&mut self, item: Item, error: String, after: Option<Duration>, now: Instant) -> Continue {
        self.tally.failure += 1;
        let attempt = item.attempt();
        let counts = item.counts();
        if attempt >= self.settings.max_attempts {
            return self.die(item, error, counts, true, now);
        }
        let delay = self.retry_delay(attempt, after);
        let wait = if item.group.is_some() { Wait::InPlace } else { Wait::Delayed };
        match item.group.clone() {
            Some(key) => {
                let group = self.groups.entry(&key, item.slot);
                group.until = Some(now + delay);
                group.miss(item.seq);
                for other in self.groups.unload(&key) {
                    self.drop_item(other, now);
                }
            }
            None if item.is_led() => return self.try_later(item, delay, now),
            None if self.node.lane.is_some() => self.reads.hint_due(now + delay),
            None => {}
        }
        self.settle_later(item, Change::Retry { delay, error, counts, wait }, GroupDuringSettle::Waits, now);
        Continue::No
    }

    /// Where the store has no place for a row to wait in, it waits in memory, its attempt recorded.
    fn try_later(&mut self, mut item: Item, delay: Duration, now: Instant) -> Continue {
        if !item.is_recorded_ahead() {
            let (outcome, slot) = (item.outcome(Change::Attempt), item.slot);
            self.push_unsettled(Unsettled { outcome, slot, group: None }, now);
        }
        item.begin_next_attempt();
        self.buffer.push_later(item, now + delay);
        Continue::No
    }

    /// When to try again: as the sink says, within bounds, else by policy.
    pub(in crate::engine) fn retry_delay(&mut self, attempt: u32, after: Option<Duration>) -> Duration {
        let random = self.random();
        match after {
            Some(after) => after.min(LONGEST_AFTER),
            None => self.settings.retry.delay(attempt, random).min(LONGEST_DELAY),
        }
    }

    /// Gives an event up. Its group is blocked behind it, if that is the policy and the event's own fault.
    pub(in crate::engine) fn die(
        &mut self,
        item: Item,
        error: String,
        counts: Counts,
        fault: bool,
        now: Instant,
    ) -> Continue {
        self.tally.dead.push((item.id().clone(), error.clone()));
        let counts = if item.recorded == Recorded::No { counts } else { item.counts() };
        let blocks = item.group.clone().filter(|_| fault && self.settings.on_dead == OnDead::Block);
        let then = match &blocks {
            Some(key) => {
                let group = self.groups.entry(key, item.slot);
                group.hold = Some(Hold::Blocking(None));
                group.miss(item.seq);
                for other in self.groups.unload(key) {
                    self.drop_item(other, now);
                }
                Continue::No
            }
            None => Continue::Yes,
        };
        let meanwhile = if fault { GroupDuringSettle::Waits } else { GroupDuringSettle::Continues };
        self.settle_later(item, Change::Dead { error, counts, blocks }, meanwhile, now);
        then
    }

    /// The endpoint wants fewer requests: the breaker sees to that, and the event goes back untouched.
    fn throttled(&mut self, item: Item, after: Option<Duration>, now: Instant) -> Continue {
        self.breaker.throttled(now, after);
        if self.slots.is_leaving(item.slot) {
            self.drop_item(item, now);
        } else if item.is_recorded_here() {
            self.wait_for_endpoint(item, now, now);
        } else {
            self.put_back(item);
        }
        Continue::No
    }

    /// The endpoint failed under a batch: once, however many its events are. How long these wait.
    fn outage(&mut self, sent: &mut SentTogether, after: Option<Duration>, now: Instant) -> Duration {
        if let Some(pause) = sent.outage {
            return pause;
        }
        let pause = self.breaker.failed(now, after);
        *sent.outage.insert(if after.is_some() { pause } else { pause * 2 })
    }

    /// How long the last attempt of an event is put off, because the endpoint has not failed under it for long enough: part of the
    /// endpoint may be down, such as one tenant's path.
    fn spare(&self, item: &mut Item, now: Instant) -> Option<Duration> {
        if item.attempt() < self.settings.max_attempts {
            return None;
        }
        let blamed = now.saturating_duration_since(*item.blamed_since.get_or_insert(now));
        (blamed < self.settings.blame_after).then(|| (blamed / 4).min(LONGEST_SPARE))
    }

    /// The endpoint's failure counts against an event only if the sink accepted another since its last attempt, and only if it was
    /// sent alone: in a batch it may have been another's fault.
    fn endpoint_failed(
        &mut self,
        mut item: Item,
        error: String,
        Trouble { after, mut pause, accepted }: Trouble,
        lone: bool,
        now: Instant,
    ) -> Continue {
        if lone && item.accepted_before.is_some_and(|before| accepted > before) {
            let Some(spared) = self.spare(&mut item, now) else {
                self.tally.dead_of_endpoint += u64::from(item.attempt() >= self.settings.max_attempts);
                return self.fail(item, error, after, now);
            };
            pause = pause.max(spared);
        }
        if lone {
            item.accepted_before = Some(accepted);
        }
        item.outages = item.outages.saturating_add(1);
        self.note(&mut item, error);
        // A wait that the endpoint asked for is kept to.
        let pause = if after.is_some() { pause } else { pause.max(patience(item.outages)) };
        self.wait_for_endpoint(item, now + pause, now);
        Continue::No
    }

    /// The event was not sent, since its route leads to what is down: it leaves memory wherever it can be had again.
    fn route_shut(&mut self, item: Item, route: &str, after: Duration, now: Instant) -> Continue {
        // Each group is read on its own: many of them leave most of the reads to others.
        let groups = GROUP_READ * u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let until = now + if item.group.is_some() { after.max(groups) } else { after };
        let polled = item.source == Source::Cold && matches!(item.custody, Custody::HandedIn(_));
        if item.group.is_some() || item.is_recorded_here() {
            self.wait_for_endpoint(item, until, now);
        } else if item.is_claimed() {
            let error = format!("the circuit breaker of {route} is open");
            let change = Change::Retry { delay: after, error, counts: Counts::Back, wait: Wait::InPlace };
            self.settle_later(item, change, GroupDuringSettle::Continues, now);
        } else if self.rereads() {
            self.pass_over(&item, until);
        } else if polled {
            // Whoever handed it in finds it again.
            self.forget_item(&item);
        } else {
            self.buffer.push_later(item, until);
        }
        Continue::No
    }

    fn within_grace(&self, item: &Item, now: Instant) -> bool {
        item.age(now).is_some_and(|age| age < self.settings.no_route_grace)
    }

    /// Nobody listens yet, perhaps because a newer release is still to come: no attempt is counted.
    fn wait_for_a_listener(&mut self, item: Item, route: &str, now: Instant) -> Continue {
        let delay = item.age(now).unwrap_or_default().clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let error = format!("no listener for {route}");
        let change = Change::Retry { delay, error, counts: Counts::Back, wait: Wait::InPlace };
        self.settle_later(item, change, GroupDuringSettle::Continues, now);
        Continue::No
    }

    /// The row tells why its event waits, written once for each error.
    fn note(&mut self, item: &mut Item, error: String) {
        let mut hasher = DefaultHasher::new();
        error.hash(&mut hasher);
        let told = Some(hasher.finish());
        if std::mem::replace(&mut item.noted, told) != told {
            let (outcome, slot) = (item.outcome(Change::Waits { error }), item.slot);
            if self.settles.note(Unsettled { outcome, slot, group: None }) {
                // The slot is not given to another before the note is written.
                self.slots.entered(slot);
            }
        }
    }

    /// An event waits for its endpoint. If it can be read again it leaves memory, and whoever cancels it meanwhile cancels it; so
    /// does one whose attempt was written, to be written again before the next delivery.
    pub(in crate::engine) fn wait_for_endpoint(&mut self, item: Item, until: Instant, now: Instant) {
        let leaves = self.rereads() && !item.is_claimed();
        match item.group.clone() {
            Some(key) => {
                let group = self.groups.entry(&key, item.slot);
                group.until = group.until.max(Some(until));
                if !leaves && !item.is_recorded_here() {
                    return group.insert(item);
                }
                group.miss(item.seq);
                for other in self.groups.unload(&key) {
                    self.drop_item(other, now);
                }
                self.drop_item(item, now);
            }
            None if leaves => {
                self.remember(&item, Some(until));
                self.return_item(item, now);
            }
            None if item.is_recorded_here() => self.drop_item(item, now),
            None => self.buffer.push_later(item, until),
        }
    }
}
