//! Verdicts: applies the sink's verdicts to events, groups and the circuit breaker.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use crate::engine::core::{Core, GroupDuringSettle};
use crate::engine::state::breaker::{LONGEST_AFTER, patience};
use crate::engine::state::groups::GroupHold;
use crate::engine::state::item::{Custody, Item, Job, Tried};
use crate::engine::state::settings::OnDead;
use crate::engine::state::settle_queue::Unsettled;
use crate::engine::tally::{Death, Notice};
use crate::model::GroupKey;
use crate::port::{Cause, Change, DeliveryPath, Verdict, Wait};

/// Error of an event for which the sink returned no verdict.
const NO_VERDICT: &str = "the sink gave no verdict";

/// Maximum delay of a retry policy.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum pause between deliveries of an event whose last attempt is postponed.
const LONGEST_SPARE: Duration = Duration::from_secs(60);

/// Minimum average time between reads of groups that wait for their route: a few times the
/// duration of such a read.
const GROUP_READ: Duration = Duration::from_millis(1);

/// Bounds of the delay for a message without a handler, which is otherwise the age of the message.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Whether the later events of a group are processed after the verdict on one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Continue {
    Yes,
    No,
}

/// Facts about the batch whose verdicts are being applied.
#[derive(Debug)]
struct SentTogether {
    /// Whether it was a single event.
    lone: bool,
    /// How long its events wait for the endpoint, once the endpoint's failure was counted.
    outage: Option<Duration>,
    /// Whether its failure was logged: a batch is one request.
    logged: bool,
}

/// An endpoint failure.
#[derive(Debug, Clone, Copy)]
struct Trouble {
    /// Delay that the endpoint asked for.
    after: Option<Duration>,
    /// Minimum wait of the event.
    pause: Duration,
    /// Number of events that the endpoint has accepted so far.
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
        let mut sent = SentTogether { lone: size == 1, outage: None, logged: false };
        while let Some(mut item) = items.next() {
            let verdict = match verdicts.next().unwrap_or(Verdict::Skipped) {
                // A skip is only valid after a failed event. Skipping the first one would
                // repeat without a delay forever.
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
                // One event may be the cause; smaller batches find it.
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
            // The sink accepted this event although an earlier one failed. Sending it again
            // would not restore the order.
            if verdict == Verdict::Accepted {
                self.judge(item, verdict, &mut sent, now);
            } else {
                rest.push(item);
            }
        }
        self.back_to_queue(group.as_ref(), rest, now);
        self.group_back(group.as_ref(), now);
    }

    /// Sends refused events again in halves, which finds the events at fault.
    fn send_in_parts(&mut self, group: Option<&GroupKey>, mut items: Vec<Item>, now: Instant) {
        let cap = items.len() / 2;
        items.iter_mut().for_each(|item| item.batch_cap = cap);
        self.back_to_queue(group, items, now);
        self.group_back(group, now);
    }

    /// Queues unsent events again, unchanged.
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
        // Rows of a waiting group leave memory if they can be read again; a leader keeps
        // the rows it has taken.
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
                self.sink_accepted(now);
                self.tally.success += 1;
                self.settle_later(item, Change::Done, GroupDuringSettle::Continues, now);
                Continue::Yes
            }
            Verdict::Settled => {
                self.sink_accepted(now);
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
                self.die(item, error, Tried::Yes, true, now)
            }
            Verdict::NoRoute { route } if self.within_grace(&item, now) => {
                self.wait_for_a_listener(item, &route, now)
            }
            Verdict::NoRoute { route } => {
                self.die(item, format!("no listener for {route}"), Tried::No, true, now)
            }
            Verdict::Throttled { error, after } => {
                self.log_failure(sent, Cause::Throttled, &error, now);
                self.throttled(item, after, now)
            }
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
            Verdict::Unavailable { cause, error, after } => {
                self.log_failure(sent, cause, &error, now);
                let accepted = self.breaker.accepted_count();
                let trouble = Trouble { after, pause: self.outage(sent, after, now), accepted };
                // The slot is being handed over: its next holder delivers the event.
                if self.slots.is_leaving(item.slot) {
                    self.drop_item(item, now);
                    return Continue::No;
                }
                self.endpoint_failed(item, error, trouble, sent.lone, now)
            }
            Verdict::InFlight => self.leave_to_read(item, now),
            Verdict::Skipped => {
                self.put_back(item);
                Continue::No
            }
        }
    }

    /// Removes an event from memory; a later read returns it if it is still pending.
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
        let attempt = item.attempt();
        if attempt >= self.settings.max_attempts {
            return self.die(item, error, Tried::Yes, true, now);
        }
        let counts = item.made();
        self.tally.failure += 1;
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

    /// Keeps an item in memory until its retry, with the attempt recorded, because the table of
    /// items has no delayed rows.
    fn try_later(&mut self, mut item: Item, delay: Duration, now: Instant) -> Continue {
        if !item.is_recorded_ahead() {
            let (outcome, slot) = (item.outcome(item.record_ahead()), item.slot);
            self.push_unsettled(Unsettled { outcome, slot, group: None }, now);
        }
        item.begin_next_attempt();
        self.buffer.push_later(item, now + delay);
        Continue::No
    }

    /// Delay of the next attempt: the sink's, within bounds, or else the retry policy's.
    pub(in crate::engine) fn retry_delay(&mut self, attempt: u32, after: Option<Duration>) -> Duration {
        let random = self.random();
        match after {
            Some(after) => after.min(LONGEST_AFTER),
            None => self.settings.retry.delay(attempt, random).min(LONGEST_DELAY),
        }
    }

    /// Marks an event dead. Blocks its group if the event is at fault and the policy says so.
    pub(in crate::engine) fn die(
        &mut self,
        item: Item,
        error: String,
        tried: Tried,
        fault: bool,
        now: Instant,
    ) -> Continue {
        self.tally.notices.push(Notice::Dead(Death {
            event: item.id().clone(),
            event_type: Some(item.event.event_type().to_owned()),
            group: item.group.clone(),
            attempts: item.attempt(),
            error: error.clone(),
        }));
        // An attempt that was recorded ahead counts: it may have been made by a process that crashed.
        let counted = tried == Tried::Yes || item.is_recorded_ahead();
        let counts = if counted { item.made() } else { item.not_made() };
        let blocks = item.group.clone().filter(|_| fault && self.settings.on_dead == OnDead::Block);
        let then = match &blocks {
            Some(key) => {
                let group = self.groups.entry(key, item.slot);
                group.hold = Some(GroupHold::Blocking(None));
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

    fn sink_accepted(&mut self, now: Instant) {
        self.breaker.accepted();
        let news = self.failures.accepted(now);
        self.tally.notices.extend(news.map(Notice::Sink));
    }

    fn log_failure(&mut self, sent: &mut SentTogether, cause: Cause, error: &str, now: Instant) {
        if !std::mem::replace(&mut sent.logged, true) {
            let news = self.failures.failed(cause, error, now);
            self.tally.notices.extend(news.map(Notice::Sink));
        }
    }

    /// Slows sending down at the endpoint's request, and queues the event again unchanged.
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

    /// Counts an endpoint failure once for the whole batch. Returns how long its events wait.
    fn outage(&mut self, sent: &mut SentTogether, after: Option<Duration>, now: Instant) -> Duration {
        if let Some(pause) = sent.outage {
            return pause;
        }
        let pause = self.breaker.failed(now, after);
        *sent.outage.insert(if after.is_some() { pause } else { pause * 2 })
    }

    /// How long the last attempt of an event is postponed, if the endpoint has not
    /// failed under it for `blame_after`.
    ///
    /// The event need not be the cause: a part of the endpoint may be down, such as one tenant's path.
    fn spare(&self, item: &mut Item, now: Instant) -> Option<Duration> {
        if item.attempt() < self.settings.max_attempts {
            return None;
        }
        let blamed = now.saturating_duration_since(*item.blamed_since.get_or_insert(now));
        (blamed < self.settings.blame_after).then(|| (blamed / 4).min(LONGEST_SPARE))
    }

    /// Applies an endpoint failure to an event.
    ///
    /// It counts as an attempt only if the sink accepted another event since the last attempt and this event
    /// was sent alone: in a batch another event may be the cause.
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
        // If the endpoint asked for a delay, that delay is used unchanged.
        let pause = if after.is_some() { pause } else { pause.max(patience(item.outages)) };
        self.wait_for_endpoint(item, now + pause, now);
        Continue::No
    }

    /// Handles an event that was not sent because its route's circuit breaker is open. It leaves memory if it
    /// can be read or claimed again.
    fn route_shut(&mut self, item: Item, route: &str, after: Duration, now: Instant) -> Continue {
        // Each waiting group needs its own read. The wait grows with the number of groups, so that their
        // reads do not crowd out other reads.
        let groups = GROUP_READ * u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        let until = now + if item.group.is_some() { after.max(groups) } else { after };
        let polled = item.path == DeliveryPath::Cold && matches!(item.custody, Custody::HandedIn(_));
        if item.group.is_some() || item.is_recorded_here() {
            self.wait_for_endpoint(item, until, now);
        } else if self.is_leased(&item.custody) && !item.is_led() {
            let error = format!("the circuit breaker of {route} is open");
            let change = Change::Retry { delay: after, error, counts: item.not_made(), wait: Wait::InPlace };
            self.settle_later(item, change, GroupDuringSettle::Continues, now);
        } else if self.rereads() {
            self.pass_over(&item, until);
        } else if polled {
            // The poller that passed it in finds the pending row again.
            self.forget_item(&item);
        } else {
            self.buffer.push_later(item, until);
        }
        Continue::No
    }

    fn within_grace(&self, item: &Item, now: Instant) -> bool {
        item.age(now).is_some_and(|age| age < self.settings.no_route_grace)
    }

    /// Retries a message without a handler and counts no attempt: a newer release may add the handler.
    fn wait_for_a_listener(&mut self, item: Item, route: &str, now: Instant) -> Continue {
        let delay = item.age(now).unwrap_or_default().clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let error = format!("no listener for {route}");
        let change = Change::Retry { delay, error, counts: item.not_made(), wait: Wait::InPlace };
        self.settle_later(item, change, GroupDuringSettle::Continues, now);
        Continue::No
    }

    /// Stores the error in the row of a waiting event, once for each different error.
    fn note(&mut self, item: &mut Item, error: String) {
        let mut hasher = DefaultHasher::new();
        error.hash(&mut hasher);
        let told = Some(hasher.finish());
        if std::mem::replace(&mut item.noted, told) != told {
            let (outcome, slot) = (item.outcome(Change::Waits { error }), item.slot);
            if self.settles.note(Unsettled { outcome, slot, group: None }) {
                // The note counts as a row in memory, so that the slot is not handed
                // over before it is written.
                self.slots.entered(slot);
            }
        }
    }

    /// Makes an event wait for its endpoint.
    ///
    /// If its row can be read again, the event leaves memory, so that it can be cancelled
    /// meanwhile. It also leaves memory if its attempt was recorded: that record is undone, and
    /// made again before the next delivery.
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
