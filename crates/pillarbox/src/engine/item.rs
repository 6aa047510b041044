//! An event in memory on its way out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Sent;
use crate::model::{Event, EventId, GroupKey, Seq, Slot, Token};
use crate::port::{Change, Claimed, Counts, Delivery, Outcome, Source};

/// One event in memory.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) seq: Seq,
    pub(crate) slot: Slot,
    pub(crate) token: Token,
    /// Failed attempts so far; where this one is counted already, it is included.
    pub(crate) attempts: u32,
    /// Whether the attempt under way is in `attempts` already.
    pub(crate) counted: bool,
    pub(crate) event: Event,
    pub(crate) source: Source,
    /// Only where groups keep their order.
    pub(crate) group: Option<GroupKey>,
    pub(crate) expires: Option<Instant>,
    /// To be tried alone, its attempt written first.
    pub(crate) careful: bool,
    /// How many events the sink had accepted when the endpoint last failed under this one.
    pub(crate) accepted_before: Option<u64>,
    /// How often the endpoint failed under it in a row.
    pub(crate) outages: u32,
    /// The error that its row tells of while it waits, as a number that stands for the text.
    pub(crate) noted: Option<u64>,
    /// Since when only its last attempt is left, and the endpoint fails under it while it accepts others.
    pub(crate) blamed_since: Option<Instant>,
    /// The largest batch it may be part of: one that was refused or broke is sent again in parts.
    pub(crate) most: usize,
    /// Taken from the store by its leader: to be given back if it is not settled.
    pub(crate) led: bool,
    /// The attempt was written before it was sent.
    pub(crate) careful_attempt: bool,
    /// It was written here, and given back unless the sink answers for the event.
    pub(crate) written: bool,
    /// The claim it is held by.
    pub(crate) claimed: Option<Arc<Claimed>>,
    /// How old it was at a moment, if that is known.
    pub(crate) age: Option<(Duration, Instant)>,
}

impl Item {
    pub(crate) fn id(&self) -> &EventId {
        self.event.id()
    }

    pub(crate) fn outcome(&self, change: Change) -> Outcome {
        Outcome { seq: self.seq, id: self.id().clone(), token: self.token, change }
    }

    /// Whether it was taken from the store, by its leader or by a claim, and its attempt counted then.
    pub(crate) fn is_taken(&self) -> bool {
        self.led || self.claimed.is_some()
    }

    /// Which attempt the next delivery is, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        if self.counted { self.attempts } else { self.attempts + 1 }
    }

    /// How an outcome of this attempt counts, if it counts at all.
    pub(crate) fn counts(&self) -> Counts {
        match (self.is_taken() && self.careful_attempt, self.counted) {
            // It was counted when it was taken, and again before it was sent.
            (true, _) => Counts::Back,
            (false, true) => Counts::None,
            (false, false) => Counts::One,
        }
    }

    /// One that was taken for untried may have ended the process all the same: its last attempt counts.
    pub(crate) fn doubt(&mut self) {
        if self.led && self.careful_attempt && !self.written {
            self.attempts += 1;
            self.careful_attempt = false;
        }
    }

    /// Whether every attempt it may have was begun before.
    pub(crate) fn had_all(&self, max_attempts: u32) -> bool {
        if self.is_taken() { self.attempts > max_attempts } else { self.attempts >= max_attempts }
    }

    /// The largest batch this one may open: what has failed before goes alone.
    pub(crate) fn opens(&self, batch: usize) -> usize {
        if self.careful || self.attempt() > 1 { 1 } else { batch.min(self.most) }
    }

    /// How many of these go out together.
    pub(crate) fn batch_of(queue: &VecDeque<Self>, batch: usize) -> usize {
        let mut most = batch;
        let mut count = 0;
        for item in queue {
            most = most.min(item.opens(batch));
            if count >= most {
                break;
            }
            count += 1;
        }
        count
    }

    pub(crate) fn delivery(&self) -> Delivery {
        Delivery {
            event: self.event.clone(),
            attempt: self.attempt(),
            seq: self.seq,
            source: self.source,
            claimed: self.claimed.clone(),
        }
    }
}

/// A batch that a worker is to deliver: events of one group, or some without.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) items: Vec<Item>,
    /// The incarnation of the node it belongs to; verdicts of an earlier one count for nothing.
    pub(crate) incarnation: u64,
    /// Whether it is the one careful delivery.
    pub(crate) careful: bool,
    /// As the breaker knows it, once it is sent.
    pub(crate) sent: Option<Sent>,
}
