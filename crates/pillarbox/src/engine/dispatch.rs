//! Dispatch: what a worker gets next, and what its verdicts mean.

use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Gate;
use super::core::{Core, Meanwhile, Phase};
use super::groups::Hold;
use super::intake::EXPIRED;
use super::item::{Item, Job};
use super::lines::Pick;
use super::settings::OnDead;
use crate::model::GroupKey;
use crate::port::{Change, Counts, Verdict, Wait};

/// The reason in a row whose delivery ended the process each time.
const CRASHED: &str = "the process ended during its last attempt";

/// The reason of a failure where the sink said nothing of the event.
const NO_VERDICT: &str = "the sink gave no verdict";

/// A sink that wants to be left alone for longer is asked again after this.
const LONGEST_AFTER: Duration = Duration::from_secs(60 * 60);

/// No retry policy puts an attempt off for longer.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Deliver this.
    Job(Job),
    /// Wait for work, or until then.
    Wait(Option<Instant>),
    /// End.
    Stop,
}

/// What came of a job.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// A verdict for each of its events.
    Verdicts(Vec<Verdict>),
    /// A panic or a missed deadline, and nobody knows whose.
    Broken(String),
}

/// What the verdict on one event means for those behind it in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Stop,
}

impl Core {
    /// The next job. Counts nothing as out unless a job is given.
    pub(crate) fn next_job(&mut self, now: Instant) -> Next {
        if self.phase == Phase::Stopped {
            return Next::Stop;
        }
        let waking = [self.lines.wake(now), self.groups.wake(now)].into_iter().flatten().min();
        self.halted = true;
        if self.lease_until.is_some_and(|until| now >= until) {
            return Next::Wait(waking);
        }
        let gate = match self.breaker.gate(now) {
            Gate::Shut(until) => return Next::Wait(until),
            gate => gate,
        };
        self.halted = false;
        while let Some(mut job) = self.pick(now) {
            // A batch that had expired is settled already; the next may be better.
            if job.items.is_empty() {
                continue;
            }
            if gate == Gate::Probe {
                self.breaker.probe_sent();
                job.probe = true;
            }
            self.out += 1;
            return Next::Job(job);
        }
        Next::Wait(waking)
    }

    pub(crate) fn worker_waits(&mut self) {
        self.idle_workers += 1;
    }

    pub(crate) fn worker_wakes(&mut self) {
        self.idle_workers = self.idle_workers.saturating_sub(1);
    }

    fn pick(&mut self, now: Instant) -> Option<Job> {
        self.write_next_attempt(now);
        if let Some(item) = self.careful.send() {
            return Some(self.job(vec![item], true, now));
        }
        loop {
            let items = match self.lines.pick(&self.groups)? {
                Pick::Group => self.groups.pop(self.settings.batch)?.1,
                line => vec![self.lines.pop(line)?],
            };
            match items.first() {
                Some(first) if self.claims.lost(first) => items.iter().for_each(|item| self.drop_item(item)),
                Some(first) if first.careful && first.attempts >= self.settings.max_attempts => {
                    self.die_of_crashes(items, now);
                }
                Some(first) if first.careful => {
                    items.into_iter().for_each(|item| self.careful.push(item));
                    self.write_next_attempt(now);
                }
                _ => return Some(self.job(items, false, now)),
            }
        }
    }

    /// Every attempt it had was written before it was sent, and no process lived to tell of the last one.
    fn die_of_crashes(&mut self, items: Vec<Item>, now: Instant) {
        for item in items {
            let group = item.group.clone();
            self.die(item, CRASHED.to_owned(), Counts::None, true, now);
            if let Some(group) = group.as_ref().and_then(|key| self.groups.get_mut(key)) {
                // Nothing was sent: the next one is the first.
                group.careful = !group.queue.is_empty();
            }
            self.group_back(group.as_ref(), now);
        }
    }

    fn job(&mut self, items: Vec<Item>, careful: bool, now: Instant) -> Job {
        if items.iter().all(|item| item.expires.is_none()) {
            return Job { items, incarnation: self.incarnation, careful, probe: false };
        }
        let (expired, items): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.expires.is_some_and(|at| at <= now));
        let group = expired.first().and_then(|item| item.group.clone());
        let all_gone = items.is_empty();
        for item in expired {
            self.die(item, EXPIRED.to_owned(), Counts::None, false, now);
        }
        if all_gone {
            if careful {
                self.careful.finished();
            }
            self.group_back(group.as_ref(), now);
        }
        Job { items, incarnation: self.incarnation, careful, probe: false }
    }

    fn write_next_attempt(&mut self, now: Instant) {
        if let Some(item) = self.careful.begin() {
            let (outcome, slot) = (item.outcome(Change::Attempt), item.slot);
            self.push_unsettled(super::core::Unsettled { outcome, slot, group: None }, now);
        }
    }

    /// A group's batch is back, whatever came of it.
    pub(super) fn group_back(&mut self, group: Option<&GroupKey>, now: Instant) {
        if let Some(key) = group {
            if let Some(group) = self.groups.get_mut(key) {
                group.out = false;
            }
            self.groups.place(key, now);
        }
    }

    /// A job is over.
    pub(crate) fn finish(&mut self, job: Job, delivered: Delivered, now: Instant) {
        self.out = self.out.saturating_sub(1);
        let probe = job.probe;
        match delivered {
            _ if job.incarnation != self.incarnation => {}
            Delivered::Broken(_) if job.items.len() > 1 => self.try_one_by_one(job.items, now),
            Delivered::Broken(error) => {
                self.judge_all(job, vec![Verdict::Failed { error, after: None }], now);
            }
            Delivered::Verdicts(verdicts) => self.judge_all(job, verdicts, now),
        }
        if probe {
            self.breaker.probe_back(now);
        }
    }

    /// One of a batch broke it, and the others must not pay for that: each is sent alone, which tells.
    fn try_one_by_one(&mut self, items: Vec<Item>, now: Instant) {
        self.breaker.answered();
        self.tally.failure += 1;
        let delay = self.retry_delay(1, None);
        let group = items.first().and_then(|item| item.group.clone());
        if let Some(group) = group.as_ref().and_then(|key| self.groups.get_mut(key)) {
            group.alone = items.len();
            group.until = Some(now + delay);
        }
        self.back_to_queue(group.as_ref(), items, now);
        self.group_back(group.as_ref(), now);
    }

    fn judge_all(&mut self, job: Job, verdicts: Vec<Verdict>, now: Instant) {
        if job.careful {
            self.careful.finished();
        }
        let group = job.items.first().and_then(|item| item.group.clone());
        let mut items = job.items.into_iter();
        let mut verdicts = verdicts.into_iter();
        let mut first = true;
        for item in items.by_ref() {
            let verdict = match verdicts.next().unwrap_or(Verdict::Skipped) {
                // Nothing before it failed: a sink that skips it would be asked again at once, for ever.
                Verdict::Skipped if first => Verdict::Failed { error: NO_VERDICT.to_owned(), after: None },
                verdict => verdict,
            };
            first = false;
            let alone = item.group.is_none();
            if self.judge(item, verdict, now) == Then::Stop && !alone {
                break;
            }
        }
        self.back_to_queue(group.as_ref(), items.collect(), now);
        self.group_back(group.as_ref(), now);
    }

    /// What follows a failed event in its group is released untouched.
    fn back_to_queue(&mut self, group: Option<&GroupKey>, rest: Vec<Item>, now: Instant) {
        let Some(key) = group else {
            return rest.into_iter().for_each(|item| self.lines.push(item));
        };
        let Some(group) = self.groups.get_mut(key) else {
            return rest.iter().for_each(|item| self.drop_item(item));
        };
        for item in rest {
            group.insert(item);
        }
        let held = group.hold.is_some() || group.settling > 0;
        if held {
            for item in self.groups.unload(key) {
                self.drop_item(&item);
            }
        }
        self.groups.place(key, now);
    }

    fn judge(&mut self, item: Item, verdict: Verdict, now: Instant) -> Then {
        match verdict {
            Verdict::Accepted => {
                self.breaker.accepted();
                self.tally.success += 1;
                self.settle_later(item, Change::Done, Meanwhile::GoesOn, now);
                Then::GoOn
            }
            Verdict::Settled => {
                self.breaker.accepted();
                self.tally.success += 1;
                self.claims.end(item.id(), item.token);
                self.drop_item(&item);
                Then::GoOn
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
                self.breaker.failed(now, after);
                self.drop_item(&item);
                Then::Stop
            }
            Verdict::Skipped if self.slots.is_leaving(item.slot) => {
                self.drop_item(&item);
                Then::Stop
            }
            Verdict::Unavailable { error, after } => self.endpoint_failed(item, error, after, now),
            Verdict::InFlight => self.leave_to_read(&item, now),
            Verdict::Skipped => {
                self.put_back(item);
                Then::Stop
            }
        }
    }

    /// Out of memory; a later read finds it if it is still pending.
    fn leave_to_read(&mut self, item: &Item, now: Instant) -> Then {
        match &item.group {
            Some(key) => {
                let group = self.groups.entry(key, item.slot);
                group.miss(item.seq);
                group.until = Some(now + self.settings.poll_interval);
                for other in self.groups.unload(key) {
                    self.drop_item(&other);
                }
            }
            None => self.rewind(item.seq),
        }
        self.drop_item(item);
        Then::Stop
    }

    fn put_back(&mut self, item: Item) {
        match item.group.clone() {
            Some(key) => self.groups.entry(&key, item.slot).insert(item),
            None => self.lines.push(item),
        }
    }

    fn fail(&mut self, item: Item, error: String, after: Option<Duration>, now: Instant) -> Then {
        self.tally.failure += 1;
        let attempt = item.attempt();
        let counts = if item.counted { Counts::None } else { Counts::One };
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
                    self.drop_item(&other);
                }
            }
            None if self.lane.is_some() => self.hint_due(now + delay),
            None => {}
        }
        self.settle_later(item, Change::Retry { delay, error, counts, wait }, Meanwhile::Waits, now);
        Then::Stop
    }

    /// When to try again: as the sink says, within bounds, else by policy.
    fn retry_delay(&mut self, attempt: u32, after: Option<Duration>) -> Duration {
        let random = self.random();
        match after {
            Some(after) => after.min(LONGEST_AFTER),
            None => self.settings.retry.delay(attempt, random).min(LONGEST_DELAY),
        }
    }

    /// Gives an event up. Its group is blocked behind it, if that is the policy and the event's own fault.
    fn die(&mut self, item: Item, error: String, counts: Counts, fault: bool, now: Instant) -> Then {
        self.tally.dead.push((item.id().clone(), error.clone()));
        let counts = if item.counted { Counts::None } else { counts };
        let blocks = item.group.clone().filter(|_| fault && self.settings.on_dead == OnDead::Block);
        let then = match &blocks {
            Some(key) => {
                let group = self.groups.entry(key, item.slot);
                group.hold = Some(Hold::Blocking(None));
                group.miss(item.seq);
                for other in self.groups.unload(key) {
                    self.drop_item(&other);
                }
                Then::Stop
            }
            None => Then::GoOn,
        };
        let meanwhile = if fault { Meanwhile::Waits } else { Meanwhile::GoesOn };
        self.settle_later(item, Change::Dead { error, counts, blocks }, meanwhile, now);
        then
    }

    /// The endpoint's failure counts against an event only if the sink accepted another since its last attempt.
    fn endpoint_failed(
        &mut self,
        mut item: Item,
        error: String,
        after: Option<Duration>,
        now: Instant,
    ) -> Then {
        let accepted = self.breaker.accepted_count();
        // Twice as long as the breaker: should this event be the cause, the probe is another one.
        let pause = self.breaker.failed(now, after) * 2;
        if item.accepted_before.is_some_and(|before| accepted > before) {
            return self.fail(item, error, after, now);
        }
        item.accepted_before = Some(accepted);
        match item.group.clone() {
            Some(key) => {
                let group = self.groups.entry(&key, item.slot);
                group.until = Some(now + pause);
                group.insert(item);
            }
            None => self.lines.push_later(item, now + pause),
        }
        Then::Stop
    }
}
