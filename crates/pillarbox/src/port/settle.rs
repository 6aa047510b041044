//! Settling: outcomes of rows, applied under a fence.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{StoreError, StoreFuture};
use crate::model::{EventId, GroupKey, NodeId, OwnerId, Seq, Token};

/// The condition under which a settle may change rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// The node's row exists; it stays locked until the settle ends. The lease's expiry is not checked, only
    /// eviction.
    Node(NodeId),
    /// The row is claimed by this owner, under the outcome's token.
    Owner(OwnerId),
    /// No condition: the caller is the only one that delivers (pollers and dispatchers used alone).
    Open,
}

/// What happens to a done row. Rows with a message id are always kept until purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDone {
    /// The row stays until purge.
    #[default]
    Keep,
    /// The row is deleted at once, which is fastest.
    ///
    /// If a caller repeats a commit of unknown outcome with the same event id, the event may be written
    /// twice: the first one may already have been delivered and deleted. With [`Keep`](Self::Keep) the second
    /// write is refused until purge.
    Delete,
}

/// The number of attempts that a row has after an outcome, and whether the attempt history gets an entry.
///
/// The number is absolute. If the answer to a settle is lost and the outcome is settled again, it counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// The attempt with this number, counted from 1, was made. Adds a history entry.
    Made(u32),
    /// No attempt was made after this many. Adds no history entry.
    NotMade(u32),
}

impl Counts {
    /// The number of attempts that the row has after the outcome.
    #[must_use]
    pub const fn attempts(self) -> u32 {
        match self {
            Self::Made(attempts) | Self::NotMade(attempts) => attempts,
        }
    }

    /// Whether the attempt goes on record in the attempt history.
    #[must_use]
    pub const fn is_recorded(self) -> bool {
        matches!(self, Self::Made(_))
    }
}

/// Where an event waits for its next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// In its place: at the head of its group, or claimable.
    InPlace,
    /// In lane −1, until a node promotes it.
    Delayed,
}

/// The change to a row. Every change except `Attempt`, `Waits` and `Extend` also ends a claim on the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The event was delivered.
    Done,
    /// The attempt failed; the next one follows after the delay, by the database's clock.
    Retry {
        /// The delay before the next attempt.
        delay: Duration,
        /// The error of this attempt.
        error: String,
        /// The attempts of the row after this one.
        counts: Counts,
        /// Where the event waits for the next attempt.
        wait: Wait,
    },
    /// The event is given up and becomes dead.
    Dead {
        /// The last error.
        error: String,
        /// The attempts of the row after this one.
        counts: Counts,
        /// The group to block behind the dead event until an operator acts.
        blocks: Option<GroupKey>,
    },
    /// The event is not due yet: moves it to lane −1 until its `available_at`. Counts no attempt.
    Delay,
    /// An attempt is about to begin: counts it and changes nothing else.
    Attempt {
        /// The attempts of the row, including this one.
        attempts: u32,
    },
    /// Releases the event untried.
    Release {
        /// The attempts of the row without the one that was not made.
        attempts: u32,
    },
    /// The event waits for its endpoint. Stores the error, keeps a claim and counts no attempt.
    Waits {
        /// The error of the endpoint.
        error: String,
    },
    /// Renews a claim. Rows without a claim do not change. With a lease of zero the claim expires at once.
    Extend {
        /// The new lease, from now.
        lease: Duration,
    },
}

impl Change {
    /// The `retry_count` of an item after this change; `None` if it does not change.
    ///
    /// The count of an item that is not pending leaves out its last attempt.
    #[must_use]
    pub fn retries(&self) -> Option<u32> {
        match self {
            Self::Dead { counts: Counts::Made(attempts), .. } | Self::Attempt { attempts } => {
                Some(attempts.saturating_sub(1))
            }
            Self::Retry { counts, .. } | Self::Dead { counts, .. } => Some(counts.attempts()),
            Self::Release { attempts } => Some(*attempts),
            Self::Done | Self::Delay | Self::Waits { .. } | Self::Extend { .. } => None,
        }
    }
}

/// The outcome of one row.
///
/// A store finds the row by its number and changes it only if its id matches as well, because a failover or a
/// restore can lead to reused numbers. Rows without numbers are found by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The sequence number of the row.
    pub seq: Seq,
    /// The id of the event.
    pub id: EventId,
    /// The token of its claim; zero without one.
    pub token: Token,
    /// The change to the row.
    pub change: Change,
}

/// A batch of outcomes, applied in one transaction.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The condition under which rows may change.
    pub fence: Fence,
    /// The outcomes; at most one per row.
    pub outcomes: Arc<[Outcome]>,
    /// What happens to done rows.
    pub on_done: OnDone,
    /// A time of the database before the first call with these outcomes, if its answer was lost: it may have
    /// applied them.
    ///
    /// `Retry` and `Dead` then change no native row that became available since, because only the first call
    /// or an operator's replay can have made it so.
    pub repeats: Option<Timestamp>,
    /// The time, set by tests; by default the database's.
    pub now: Option<Timestamp>,
}

/// The result of a settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// False if the node was evicted. Outcomes that changed nothing are then all in `stale`: every one, unless
    /// the batch was settled in parts and the eviction came between two of them.
    pub held: bool,
    /// Places in `outcomes` that changed nothing: the row was deleted, is no longer pending, was claimed by
    /// another owner, or its number now belongs to another event.
    pub stale: Vec<usize>,
    /// Places in `outcomes` whose rows are locked by another transaction. They did not change and must be
    /// settled again. Empty if the settle is part of the caller's transaction, which waits for locks.
    pub busy: Vec<usize>,
    /// Whether a number of an outcome belongs to a pending row of another event. Then numbers have been
    /// reused, and every cursor read before is stale.
    pub reused: bool,
}

impl Settled {
    /// The result for an evicted node: none of its outcomes changed anything.
    #[must_use]
    pub fn lost(outcomes: usize) -> Self {
        Self { held: false, stale: (0..outcomes).collect(), busy: Vec::new(), reused: false }
    }

    /// The result where every outcome changed its row, except those at these places.
    #[must_use]
    pub fn all_but(stale: Vec<usize>) -> Self {
        Self { held: true, stale, busy: Vec::new(), reused: false }
    }
}

impl Settle {
    /// Settles the batch, and splits it in halves wherever `locks` reports a locked row, down to that single
    /// row, which is busy.
    ///
    /// For stores that cannot skip locked rows and must not wait for them. The number of splits is limited:
    /// if many rows are locked, unlocked rows beside them are reported as busy too.
    pub async fn in_halves<'a>(
        self,
        locks: impl Fn(&StoreError) -> bool + Send,
        settle: impl Fn(Self) -> StoreFuture<'a, Settled> + Send,
    ) -> Result<Settled, StoreError> {
        const TRIES: usize = 40;
        let (count, mut failed) = (self.outcomes.len(), 0);
        let mut whole = Settled::all_but(Vec::new());
        let mut parts: Vec<Range<usize>> = std::iter::once(0..count).collect();
        while let Some(part) = parts.pop() {
            match settle(self.part(part.clone())).await {
                Ok(settled) if !settled.held => {
                    // Parts are settled in order: everything from this one on changed nothing.
                    whole.stale.append(&mut whole.busy);
                    whole.stale.extend(part.start..count);
                    whole.stale.sort_unstable();
                    return Ok(Settled { held: false, ..whole });
                }
                Ok(settled) => {
                    whole.stale.extend(settled.stale.iter().map(|place| part.start + place));
                    whole.busy.extend(settled.busy.iter().map(|place| part.start + place));
                    whole.reused |= settled.reused;
                }
                Err(error) if locks(&error) && part.len() > 1 && failed < TRIES => {
                    failed += 1;
                    let middle = part.start + part.len() / 2;
                    // The stack pops the lower half first, so outcomes are settled in order.
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
        Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, repeats: None, now: None }
    }

    /// PBX-080
    #[tokio::test]
    async fn halves_find_the_locked_rows_and_settle_each_other_one_once() {
        let settled = Mutex::new(Vec::new());
        let (locked, gone) = ([3_i64, 400, 401, 999], 17_i64);
        let store = |part: Settle| -> StoreFuture<'_, Settled> {
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

    /// PBX-011, PBX-080
    #[tokio::test]
    async fn what_was_settled_before_an_eviction_is_not_called_stale() {
        let store = |part: Settle| -> StoreFuture<'_, Settled> {
            let (first, rows) = (part.outcomes[0].seq.0, part.outcomes.len());
            let answer = match (first, rows) {
                (_, 8) | (0..2, 2..) => Err(StoreError::new(ErrorKind::Timeout, "settle", "test", "locked")),
                (1, 1) => Err(StoreError::new(ErrorKind::Timeout, "settle", "test", "locked")),
                (4.., _) => Ok(Settled::lost(rows)),
                _ => Ok(Settled::all_but(Vec::new())),
            };
            Box::pin(async move { answer })
        };
        let whole = settle(8).in_halves(|error| error.kind() == ErrorKind::Timeout, store).await.unwrap();
        // 0, 2 and 3 were settled; 1 was locked; the node was evicted before the upper half.
        assert_eq!(whole, Settled { held: false, ..Settled::all_but(vec![1, 4, 5, 6, 7]) });
    }

    #[tokio::test]
    async fn other_failures_are_told_as_they_are() {
        let fails = |_: Settle| -> StoreFuture<'_, Settled> {
            Box::pin(async { Err(StoreError::new(ErrorKind::Unavailable, "settle", "test", "gone")) })
        };
        let failed = settle(4).in_halves(|error| error.kind() == ErrorKind::Timeout, fails).await;
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
