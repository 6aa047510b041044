//! Dispatch: selects the next batch for a worker, and processes its result.

use tokio::time::Instant;

use super::admission::EXPIRED;
use crate::engine::core::{Core, Phase};
use crate::engine::state::breaker::{Gate, Outlook};
use crate::engine::state::buffer::Pick;
use crate::engine::state::item::{Item, Job, Tried};
use crate::engine::state::settle_queue::Unsettled;
use crate::model::GroupKey;
use crate::port::Verdict;

/// Error of an event whose last recorded attempt crashed the process.
const CRASHED: &str = "the process ended during its last attempt";

/// The next action of a worker.
#[derive(Debug)]
pub(crate) enum Next {
    /// Deliver this batch.
    Job(Job),
    /// Wait for a signal, at most until this time.
    Wait(Option<Instant>),
    /// Stop, because the engine is shutting down.
    Stop,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// The sink's verdicts, one for each event.
    Verdicts(Vec<Verdict>),
    /// A panic or an exceeded deadline; in a batch, the event at fault is unknown.
    Broken(String),
}

impl Core {
    /// Returns the next job, and counts the worker as busy if there is one.
    pub(crate) fn next_job(&mut self, now: Instant) -> Next {
        if self.phase == Phase::Stopped {
            return Next::Stop;
        }
        let waking = [self.buffer.wake(now), self.groups.wake(now)].into_iter().flatten().min();
        self.workers.halted = true;
        if self.node.is_expired(now) {
            return Next::Wait(waking);
        }
        if let Gate::Shut(until) = self.breaker.gate(now) {
            return Next::Wait(until);
        }
        self.workers.halted = false;
        while let Some(mut job) = self.pick(now) {
            // All events of this batch had expired and are settled already.
            if job.items.is_empty() {
                continue;
            }
            job.sent = Some(self.breaker.send(now));
            self.workers.busy += 1;
            return Next::Job(job);
        }
        Next::Wait(waking)
    }

    pub(crate) fn worker_waits(&mut self) {
        self.workers.idle += 1;
    }

    pub(crate) fn worker_wakes(&mut self) {
        self.workers.idle = self.workers.idle.saturating_sub(1);
    }

    fn pick(&mut self, now: Instant) -> Option<Job> {
        if let Some(item) = self.next_quarantined(now) {
            return Some(self.job(vec![item], true, now));
        }
        let max = self.settings.max_attempts;
        loop {
            let items = match self.buffer.pick(&self.groups)? {
                Pick::Group => self.groups.pop(self.settings.batch)?.1,
                queue => self.buffer.pop(queue, self.settings.batch),
            };
            match items.first() {
                Some(first) if self.leases.lost(first) => self.drop_lost(items, now),
                Some(first) if first.quarantined && self.quarantine.alone() && first.had_all(max) => {
                    self.die_of_crashes(items, now);
                }
                Some(first) if first.quarantined => {
                    items.into_iter().for_each(|item| self.quarantine.push(item));
                    if let Some(item) = self.next_quarantined(now) {
                        return Some(self.job(vec![item], true, now));
                    }
                }
                _ => return Some(self.job(items, false, now)),
            }
        }
    }

    /// Drops the items whose claim was lost, and queues the others again.
    fn drop_lost(&mut self, items: Vec<Item>, now: Instant) {
        let group = items.first().and_then(|item| item.group.clone());
        let (lost, kept): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| self.leases.lost(item));
        lost.iter().for_each(|item| self.forget_item(item));
        self.back_to_queue(group.as_ref(), kept, now);
        self.group_back(group.as_ref(), now);
    }

    /// Marks events dead whose attempts were all recorded before sending and whose
    /// last attempt crashed the process.
    fn die_of_crashes(&mut self, items: Vec<Item>, now: Instant) {
        for item in items {
            let group = item.group.clone();
            self.die(item, CRASHED.to_owned(), Tried::No, true, now);
            if let Some(group) = group.as_ref().and_then(|key| self.groups.get_mut(key)) {
                // Nothing of the group was sent, so the next event takes over the quarantine as its first.
                group.quarantined = !group.queue.is_empty();
                group.queue.iter_mut().take(1).for_each(Item::doubt);
            }
            self.group_back(group.as_ref(), now);
        }
    }

    fn job(&mut self, items: Vec<Item>, quarantined: bool, now: Instant) -> Job {
        if items.iter().all(|item| item.expires.is_none()) {
            return Job { items, incarnation: self.node.incarnation, quarantined, began: now, sent: None };
        }
        let (expired, items): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item| item.expires.is_some_and(|at| at <= now));
        let group = expired.first().and_then(|item| item.group.clone());
        let all_gone = items.is_empty();
        if let (Some(first), true, true) = (expired.first(), quarantined, all_gone) {
            self.quarantine.finished(first.id());
        }
        for item in expired {
            self.die(item, EXPIRED.to_owned(), Tried::No, false, now);
        }
        if all_gone {
            self.group_back(group.as_ref(), now);
        }
        Job { items, incarnation: self.node.incarnation, quarantined, began: now, sent: None }
    }

    /// Returns a quarantined event that may be sent now. If they are sent alone, it also starts
    /// to record the next attempt.
    fn next_quarantined(&mut self, now: Instant) -> Option<Item> {
        if let Some(item) = self.quarantine.begin() {
            let (outcome, slot) = (item.outcome(item.record_ahead()), item.slot);
            self.push_unsettled(Unsettled { outcome, slot, group: None }, now);
        }
        self.quarantine.send()
    }

    /// Ends the delivery of a group's batch, whatever its result.
    pub(in crate::engine) fn group_back(&mut self, group: Option<&GroupKey>, now: Instant) {
        if let Some(key) = group {
            if let Some(group) = self.groups.get_mut(key) {
                group.out = false;
            }
            self.groups.place(key, now);
        }
    }

    /// Processes the result of a job.
    pub(crate) fn finish(&mut self, job: Job, delivered: Delivered, now: Instant) {
        self.workers.busy = self.workers.busy.saturating_sub(1);
        let handled = u32::try_from(job.items.len()).unwrap_or(u32::MAX).max(1);
        self.claim_size.handled(now.saturating_duration_since(job.began) / handled);
        let sent = job.sent;
        if let Some(sent) = sent {
            self.breaker.judge(sent);
        }
        match delivered {
            // The node was lost during the delivery: the rows belong to another
            // node, which delivers them again.
            _ if job.incarnation != self.node.incarnation => {}
            Delivered::Broken(_) if job.items.len() > 1 => self.try_one_by_one(job.items, now),
            Delivered::Broken(error) => {
                self.judge_all(job, vec![Verdict::Failed { error, after: None }], now);
            }
            Delivered::Verdicts(verdicts) => self.judge_all(job, verdicts, now),
        }
        if let Some(sent) = sent {
            self.breaker.judged(sent, now);
        }
        self.reads.held = false;
        if matches!(self.breaker.outlook(now), Outlook::Paused(_)) {
            self.set_all_aside(now);
        }
    }

    /// Sends the events of a broken batch one by one, which finds the event at fault without counting
    /// attempts of the others.
    fn try_one_by_one(&mut self, items: Vec<Item>, now: Instant) {
        self.breaker.answered();
        self.tally.failure += 1;
        let delay = self.retry_delay(1, None);
        let group = items.first().and_then(|item| item.group.clone());
        if let Some(group) = group.as_ref().and_then(|key| self.groups.get_mut(key)) {
            group.until = Some(now + delay);
        }
        let items = items.into_iter().map(|item| Item { batch_cap: 1, ..item }).collect();
        self.back_to_queue(group.as_ref(), items, now);
        self.group_back(group.as_ref(), now);
    }
}
