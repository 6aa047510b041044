//! Reporting outcomes, fenced.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Answer, StoreError};
use crate::model::{EventId, GroupKey, NodeId, OwnerId, Seq, Token};

/// What proves the right to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// The node's row is there, locked until the settle is through. No expiry is tested.
    Node(NodeId),
    /// The row is claimed by this owner with this outcome's token.
    Owner(OwnerId),
    /// Nothing: the caller is the only one who delivers (pollers and dispatchers used alone).
    Open,
}

/// What happens to a row that is done. Rows with a message id are always kept until purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDone {
    /// It stays until purge.
    #[default]
    Keep,
    /// It is deleted immediately, which is fastest.
    ///
    /// A caller who repeats a commit of unknown outcome with the same event id may then write the event a second time: the first one may
    /// have been delivered and deleted meanwhile. [`Keep`](Self::Keep) refuses the second write until purge.
    Delete,
}

/// Whether the attempt is counted by this outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// It counts one attempt.
    One,
    /// It counts none: nothing was tried, or the attempt was counted before.
    None,
    /// Undoes the attempt counted by the claim; adds no history entry.
    Back,
}

/// Where an event waits for its next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Where it is: at the head of its group, or claimable.
    InPlace,
    /// In lane −1, until a node promotes it.
    Delayed,
}

/// What is to change in a row. Every change but `Attempt`, `Waits` and `Extend` also ends a claim on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The event was delivered.
    Done,
    /// Failed: again after the delay, by the database's clock.
    Retry {
        /// How long to wait.
        delay: Duration,
        /// Why it failed.
        error: String,
        /// Whether this counts the attempt.
        counts: Counts,
        /// Where it waits.
        wait: Wait,
    },
    /// The event is given up.
    Dead {
        /// The last error.
        error: String,
        /// Whether this counts an attempt.
        counts: Counts,
        /// The group that stays blocked behind it, until an operator acts.
        blocks: Option<GroupKey>,
    },
    /// It is not due yet: moves to lane −1 until its `available_at`. Counts nothing.
    Delay,
    /// It is about to be tried: counts the attempt, changes nothing else.
    Attempt,
    /// It goes back untouched: undoes the attempt counted by a claim.
    Release,
    /// As `Release`, and also undoes an attempt that `Attempt` counted before: it was not made after all.
    Untried,
    /// It waits for its endpoint. Keeps the error; a claim on it goes on, and no attempt is counted.
    Waits {
        /// How the endpoint failed.
        error: String,
    },
    /// Renews a claim. Changes only rows that are claimed. With a lease of zero the claim expires immediately.
    Extend {
        /// How long from now.
        lease: Duration,
    },
}

/// An outcome of one row. Stores find the row by its number, and change it only if it has this id too: after a failover or
/// a restore a server gives numbers again. Where rows have no number they are found by their id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The number of the row.
    pub seq: Seq,
    /// The id of the event.
    pub id: EventId,
    /// The token of its claim; zero without one.
    pub token: Token,
    /// What changes in the row.
    pub change: Change,
}

/// A batch of outcomes, applied in one transaction.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The proof of the right to settle.
    pub fence: Fence,
    /// The outcomes, each row at most once.
    pub outcomes: Arc<[Outcome]>,
    /// What happens to rows that are done.
    pub on_done: OnDone,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// What a settle did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// False: the node is gone; nothing was changed.
    pub held: bool,
    /// Places in `outcomes` that changed nothing: gone, not pending, claimed by someone else since, or another event's now.
    pub stale: Vec<usize>,
    /// Places in `outcomes` whose rows another transaction has locked: nothing was changed, and nothing is known of them
    /// yet. They are to be settled again. Empty where a settle is part of a transaction of the caller's: that waits.
    pub busy: Vec<usize>,
    /// A pending row of another event was found under the number of an outcome: numbers have been given again, and no
    /// position that was read before holds.
    pub reused: bool,
}

impl Settled {
    /// The node was evicted: none of this many outcomes changed anything.
    #[must_use]
    pub fn lost(outcomes: usize) -> Self {
        Self { held: false, stale: (0..outcomes).collect(), busy: Vec::new(), reused: false }
    }

    /// Every outcome changed its row, but for those at these places.
    #[must_use]
    pub fn all_but(stale: Vec<usize>) -> Self {
        Self { held: true, stale, busy: Vec::new(), reused: false }
    }
}

impl Settle {
    /// Settles in halves wherever `locks` says that a row is locked, down to that row alone, which is busy. For stores
    /// that can't skip locked rows and must not wait for them. Where many are locked, those beside them are busy too.
    pub async fn in_halves<'a>(
        self,
        locks: impl Fn(&StoreError) -> bool + Send,
        settle: impl Fn(Self) -> Answer<'a, Settled> + Send,
    ) -> Result<Settled, StoreError> {
        const TRIES: usize = 40;
        let (count, mut failed) = (self.outcomes.len(), 0);
        let mut whole = Settled::all_but(Vec::new());
        let mut parts: Vec<Range<usize>> = std::iter::once(0..count).collect();
        while let Some(part) = parts.pop() {
            match settle(self.part(part.clone())).await {
                Ok(settled) if !settled.held => return Ok(Settled::lost(count)),
                Ok(settled) => {
                    whole.stale.extend(settled.stale.iter().map(|place| part.start + place));
                    whole.busy.extend(settled.busy.iter().map(|place| part.start + place));
                    whole.reused |= settled.reused;
                }
                Err(error) if locks(&error) && part.len() > 1 && failed < TRIES => {
                    failed += 1;
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) if locks(&error) => whole.busy.extend(part),
                Err(error) => return Err(error),
            }
        }
        Ok(whole)
    }

    fn part(&self, part: Range<usize>) -> Self {
        if part.len() == self.outcomes.len() {
            return self.clone();
        }
        Self { outcomes: self.outcomes[part].into(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::port::ErrorKind;

    fn settle(rows: i64) -> Settle {
        let outcome = |seq: i64| Outcome {
            seq: Seq(seq),
            id: EventId::new(format!("e{seq}")).expect("an id"),
            token: Token::default(),
            change: Change::Done,
        };
        let outcomes = (0..rows).map(outcome).collect();
        Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, now: None }
    }

    /// PBX-080
    #[tokio::test]
    async fn halves_find_the_locked_rows_and_settle_each_other_one_once() {
        let settled = Mutex::new(Vec::new());
        let (locked, gone) = ([3_i64, 400, 401, 999], 17_i64);
        let store = |part: Settle| -> Answer<'_, Settled> {
            let seqs: Vec<i64> = part.outcomes.iter().map(|outcome| outcome.seq.0).collect();
            let answer = if seqs.iter().any(|seq| locked.contains(seq)) {
                Err(StoreError::new(ErrorKind::Timeout, "settle", "test", "locked"))
            } else {
                let stale = seqs.iter().position(|seq| *seq == gone).into_iter().collect();
                settled.lock().unwrap().extend(seqs);
                Ok(Settled::all_but(stale))
            };
            Box::pin(async move { answer })
        };
        let whole = settle(1_000).in_halves(|error| error.kind() == ErrorKind::Timeout, store).await.unwrap();
        assert_eq!(whole, Settled { busy: vec![3, 400, 401, 999], ..Settled::all_but(vec![17]) });
        let settled = settled.into_inner().unwrap();
        let others: Vec<i64> = (0..1_000).filter(|seq| !locked.contains(seq)).collect();
        assert_eq!(settled, others);
    }

    #[tokio::test]
    async fn other_failures_are_told_as_they_are() {
        let fails = |_: Settle| -> Answer<'_, Settled> {
            Box::pin(async { Err(StoreError::new(ErrorKind::Unavailable, "settle", "test", "gone")) })
        };
        let failed = settle(4).in_halves(|error| error.kind() == ErrorKind::Timeout, fails).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
