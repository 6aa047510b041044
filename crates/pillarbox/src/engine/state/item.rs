//! An event in memory, with the delivery state of its row.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Sent;
use crate::model::{Event, EventId, GroupKey, Seq, Slot, Token};
use crate::port::{Change, Claimed, Counts, Delivery, DeliveryPath, Outcome};

/// Who may settle the row of an event in memory, and what happens if the event leaves memory unsettled.
#[derive(Debug, Clone)]
pub(crate) enum Custody {
    /// The row is pending in a slot of this node. If the event leaves memory, the row can be read again.
    Pending,
    /// A caller read the row and passed it in, under this token if it was claimed.
    HandedIn(Token),
    /// The leader took the row under this token. If the event leaves memory unsettled,
    /// the row must be released.
    Taken(Token),
    /// The row was claimed under a lease.
    Claimed(Arc<Claimed>),
}

impl Custody {
    pub(crate) fn token(&self) -> Token {
        match self {
            Self::Pending => Token::default(),
            Self::HandedIn(token) | Self::Taken(token) => *token,
            Self::Claimed(claimed) => claimed.token,
        }
    }

    /// Whether the attempts of the row include one that has not been made: a take or a claim counts it.
    pub(crate) fn counts_ahead(&self) -> bool {
        match self {
            Self::Pending => false,
            Self::HandedIn(token) => *token != Token::default(),
            Self::Taken(_) | Self::Claimed(_) => true,
        }
    }

    /// How an event ends that was not tried, and whose row has this many attempts.
    pub(crate) fn untried(&self, attempts: u32) -> Counts {
        Counts::NotMade(attempts.saturating_sub(self.counts_ahead().into()))
    }
}

/// Whether the row's attempt count includes the current attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Not included: the outcome counts it.
    No,
    /// Counted by the take or the claim.
    ByTake,
    /// Recorded before sending by an earlier process, which returned the event untried.
    Before,
    /// Recorded before sending by this process, which undoes the record unless the sink gives
    /// a verdict on the event.
    Here,
}

/// Whether an event that ends was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Yes,
    No,
}

/// One event in memory.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) seq: Seq,
    pub(crate) slot: Slot,
    pub(crate) custody: Custody,
    /// Failed attempts so far, including the current one unless `recorded` is `No`.
    pub(crate) attempts: u32,
    pub(crate) recorded: Recorded,
    pub(crate) event: Event,
    pub(crate) path: DeliveryPath,
    /// Group of the event, if groups keep their order.
    pub(crate) group: Option<GroupKey>,
    pub(crate) expires: Option<Instant>,
    /// Whether the event may have crashed a process and must be delivered from quarantine.
    pub(crate) quarantined: bool,
    /// Number of events the sink had accepted when the endpoint last failed under this event.
    pub(crate) accepted_before: Option<u64>,
    /// Number of endpoint failures in a row under this event.
    pub(crate) outages: u32,
    /// Hash of the error that is stored in its row as the reason for its wait.
    pub(crate) noted: Option<u64>,
    /// Time since which only the last attempt is left while the endpoint fails under
    /// this event and accepts others.
    pub(crate) blamed_since: Option<Instant>,
    /// Maximum size of a batch that contains it. A batch that was refused or failed is sent again in parts.
    pub(crate) batch_cap: usize,
    /// Age of the event at a local time, if known.
    pub(crate) age: Option<(Duration, Instant)>,
    /// Error of the last failed attempt, if the row was read with it.
    pub(crate) last_error: Option<Arc<str>>,
}

impl Item {
    /// A pending event without attempts, group or expiry.
    pub(crate) fn new(event: Event, seq: Seq, slot: Slot, path: DeliveryPath) -> Self {
        Self {
            seq,
            slot,
            custody: Custody::Pending,
            attempts: 0,
            recorded: Recorded::No,
            event,
            path,
            group: None,
            expires: None,
            quarantined: false,
            accepted_before: None,
            outages: 0,
            noted: None,
            blamed_since: None,
            batch_cap: usize::MAX,
            age: None,
            last_error: None,
        }
    }

    pub(crate) fn id(&self) -> &EventId {
        self.event.id()
    }

    pub(crate) fn token(&self) -> Token {
        self.custody.token()
    }

    pub(crate) fn outcome(&self, change: Change) -> Outcome {
        Outcome { seq: self.seq, id: self.id().clone(), token: self.token(), change }
    }

    /// Whether the leader took its row.
    pub(crate) fn is_led(&self) -> bool {
        matches!(self.custody, Custody::Taken(_))
    }

    /// Whether its row was claimed under a lease.
    pub(crate) fn is_claimed(&self) -> bool {
        matches!(self.custody, Custody::Claimed(_))
    }

    /// Whether its row was taken by the leader or by a claim, which counted the attempt.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_led() || self.is_claimed()
    }

    /// Whether this process recorded the current attempt before sending.
    pub(crate) fn is_recorded_here(&self) -> bool {
        self.recorded == Recorded::Here
    }

    /// Whether the current attempt was recorded before sending, by this or an earlier process.
    pub(crate) fn is_recorded_ahead(&self) -> bool {
        matches!(self.recorded, Recorded::Before | Recorded::Here)
    }

    /// Notes that the store has recorded the next attempt. For a taken row, the take has already counted it.
    pub(crate) fn record_here(&mut self) {
        self.attempts += u32::from(!self.custody.counts_ahead());
        self.recorded = Recorded::Here;
    }

    /// Number of the next delivery's attempt, counted from 1.
    pub(crate) fn attempt(&self) -> u32 {
        if self.recorded == Recorded::No { self.attempts + 1 } else { self.attempts }
    }

    /// The attempts of the row once the current attempt was made, without a second count of it by a record.
    pub(crate) fn made(&self) -> Counts {
        Counts::Made(self.attempt())
    }

    /// The attempts of the row if the current one is not made.
    pub(crate) fn not_made(&self) -> Counts {
        Counts::NotMade(self.attempt().saturating_sub(1))
    }

    /// The record of the next attempt, ahead of sending.
    pub(crate) fn record_ahead(&self) -> Change {
        Change::Attempt { attempts: self.attempts.saturating_add(1) }
    }

    /// Returns the row untried. A record that an earlier process made of the current attempt stays.
    pub(crate) fn release(&self) -> Change {
        let recorded = self.recorded == Recorded::Before && self.custody.counts_ahead();
        Change::Release { attempts: self.not_made().attempts() + u32::from(recorded) }
    }

    /// Returns the row without having sent it. If its last claim expired, this one is made to expire too: a release
    /// would erase that fact, and the next owner would not quarantine the row.
    pub(crate) fn give_back(&self) -> Change {
        if self.quarantined && !self.is_led() {
            Change::Extend { lease: Duration::ZERO }
        } else {
            self.release()
        }
    }

    /// Counts the last attempt of a taken event that was believed to be untried, because it
    /// may have crashed the process.
    pub(crate) fn doubt(&mut self) {
        if self.is_led() && self.recorded == Recorded::Before {
            self.begin_next_attempt();
        }
    }

    /// Begins the next attempt after the recorded one was made. The same take counts it.
    pub(crate) fn begin_next_attempt(&mut self) {
        self.attempts += 1;
        self.recorded = Recorded::ByTake;
    }

    /// Whether all allowed attempts were begun before.
    pub(crate) fn had_all(&self, max_attempts: u32) -> bool {
        if self.custody.counts_ahead() { self.attempts > max_attempts } else { self.attempts >= max_attempts }
    }

    /// Maximum size of a batch that contains this event. An event that has failed before is sent alone.
    fn largest_batch(&self, batch: usize) -> usize {
        if self.quarantined || self.attempt() > 1 { 1 } else { batch.min(self.batch_cap) }
    }

    /// Number of events at the front of the queue that are sent together.
    pub(crate) fn batch_of(queue: &VecDeque<Self>, batch: usize) -> usize {
        let mut largest = batch;
        let mut count = 0;
        for item in queue {
            largest = largest.min(item.largest_batch(batch));
            if count >= largest {
                break;
            }
            count += 1;
        }
        count
    }

    pub(crate) fn delivery(&self) -> Delivery {
        let claimed = match &self.custody {
            Custody::Claimed(claimed) => Some(Arc::clone(claimed)),
            _ => None,
        };
        Delivery {
            event: self.event.clone(),
            attempt: self.attempt(),
            seq: self.seq,
            path: self.path,
            claimed,
            last_error: self.last_error.clone(),
        }
    }

    /// Age of the event, if known.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.age.map(|(age, at)| age + now.saturating_duration_since(at))
    }
}

/// A batch for a worker: events of one group, or events without a group.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) items: Vec<Item>,
    /// Incarnation of the node that the batch belongs to. Verdicts of an earlier incarnation are ignored.
    pub(crate) incarnation: u64,
    /// Whether its only event comes from the quarantine queue.
    pub(crate) quarantined: bool,
    /// Time at which a worker took it.
    pub(crate) began: Instant,
    /// The circuit breaker's record of the request, once it is sent.
    pub(crate) sent: Option<Sent>,
}
