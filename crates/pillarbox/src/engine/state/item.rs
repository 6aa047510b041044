//! An event in memory on its way out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Sent;
use crate::model::{Event, EventId, GroupKey, Seq, Slot, Token};
use crate::port::{Change, Claimed, Counts, Delivery, Outcome, Source};

/// Who may settle the row of an event in memory, and what happens to it if nobody does.
#[derive(Debug, Clone)]
pub(crate) enum Custody {
    /// The row is pending in the store, and whoever holds its slot reads it. If it leaves memory, it can be read again.
    Pending,
    /// Somebody read the row and handed it in, under this token if it was claimed.
    HandedIn(Token),
    /// The leader took the row under this token. If it leaves memory unsettled, it has to be released.
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
}

/// Whether the row's count of attempts includes the attempt under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It does not: the outcome counts it.
    No,
    /// The take or the claim counted it.
    ByTake,
    /// An earlier process recorded it before sending, and gave the event back untried.
    Before,
    /// This process recorded it before sending. It takes the record back unless the sink answers for the event.
    Here,
}

/// One event in memory.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) seq: Seq,
    pub(crate) slot: Slot,
    pub(crate) custody: Custody,
    /// Failed attempts so far, and the attempt under way unless `recorded` says `No`.
    pub(crate) attempts: u32,
    pub(crate) recorded: Recorded,
    pub(crate) event: Event,
    pub(crate) source: Source,
    /// Only where groups keep their order.
    pub(crate) group: Option<GroupKey>,
    pub(crate) expires: Option<Instant>,
    /// A crashed process may have died of it: it is delivered from quarantine.
    pub(crate) quarantined: bool,
    /// How many events the sink had accepted when the endpoint last failed under this one.
    pub(crate) accepted_before: Option<u64>,
    /// How often the endpoint failed under it in a row.
    pub(crate) outages: u32,
    /// A hash of the error that its row names as the reason why it waits.
    pub(crate) noted: Option<u64>,
    /// Since when only its last attempt is left, while the endpoint fails under it and accepts others.
    pub(crate) blamed_since: Option<Instant>,
    /// The largest batch it may be part of. A batch that was refused or failed is sent again in parts.
    pub(crate) batch_cap: usize,
    /// How old it was at a moment, if that is known.
    pub(crate) age: Option<(Duration, Instant)>,
}

impl Item {
    /// An event that nothing is known of but where its row is.
    pub(crate) fn new(event: Event, seq: Seq, slot: Slot, source: Source) -> Self {
        Self {
            seq,
            slot,
            custody: Custody::Pending,
            attempts: 0,
            recorded: Recorded::No,
            event,
            source,
            group: None,
            expires: None,
            quarantined: false,
            accepted_before: None,
            outages: 0,
            noted: None,
            blamed_since: None,
            batch_cap: usize::MAX,
            age: None,
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

    /// Whether its row was taken from the store, by the leader or by a claim, and the attempt counted then.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_led() || self.is_claimed()
    }

    /// Whether this process recorded the attempt under way.
    pub(crate) fn is_recorded_here(&self) -> bool {
        self.recorded == Recorded::Here
    }

    /// Whether the attempt under way was recorded before sending, here or by an earlier process.
    pub(crate) fn is_recorded_ahead(&self) -> bool {
        matches!(self.recorded, Recorded::Before | Recorded::Here)
    }

    /// The store has recorded the attempt that is about to be made. One that was taken was counted then.
    pub(crate) fn record_here(&mut self) {
        self.attempts += u32::from(!self.is_taken());
        self.recorded = Recorded::Here;
    }

    /// The number of the attempt that the next delivery is, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        if self.recorded == Recorded::No { self.attempts + 1 } else { self.attempts }
    }

    /// How an outcome of this attempt counts, if it counts at all.
    pub(crate) fn counts(&self) -> Counts {
        match self.recorded {
            Recorded::No => Counts::One,
            // The take counted it, and the record counted it again.
            Recorded::Before | Recorded::Here if self.is_taken() => Counts::Back,
            _ => Counts::None,
        }
    }

    /// An event that was believed to be untried may have crashed the process after all: its last attempt counts.
    pub(crate) fn doubt(&mut self) {
        if self.is_led() && self.recorded == Recorded::Before {
            self.begin_next_attempt();
        }
    }

    /// The recorded attempt was made; the next one is counted by the same take.
    pub(crate) fn begin_next_attempt(&mut self) {
        self.attempts += 1;
        self.recorded = Recorded::ByTake;
    }

    /// Whether every attempt it may have was begun before.
    pub(crate) fn had_all(&self, max_attempts: u32) -> bool {
        if self.is_taken() { self.attempts > max_attempts } else { self.attempts >= max_attempts }
    }

    /// The largest batch that this event may be the first of. What has failed before is sent alone.
    fn largest_batch(&self, batch: usize) -> usize {
        if self.quarantined || self.attempt() > 1 { 1 } else { batch.min(self.batch_cap) }
    }

    /// How many from the front of the queue are sent together.
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
            source: self.source,
            claimed,
        }
    }

    /// How old it is, if that is known.
    pub(crate) fn age(&self, now: Instant) -> Option<Duration> {
        self.age.map(|(age, at)| age + now.saturating_duration_since(at))
    }
}

/// A batch that a worker is to deliver: events of one group, or some without.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) items: Vec<Item>,
    /// The incarnation of the node it belongs to. Verdicts of an earlier incarnation are ignored.
    pub(crate) incarnation: u64,
    /// Whether its event comes from quarantine.
    pub(crate) quarantined: bool,
    /// The breaker's record of the request, once it is sent.
    pub(crate) sent: Option<Sent>,
}
