//! The claimer: claims rows for an engine and renews their leases.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::caught::caught;
use super::heartbeat_runtime::HeartbeatRuntime;
use crate::engine::shared::Shared;
use crate::engine::sources::{Asked, ClaimSource, Clock, Read, ReadResult};
use crate::model::{OwnerId, Row};
use crate::port::{
    ByteLimits, Change, Claim, ClaimFrom, ErrorKind, Fence, OnDone, Outcome, Settle, Settled, Store,
    StoreError,
};
use crate::rules::Lease;

/// Maximum age of the comparison between the database's clock and the local clock.
const CLOCK_HOLDS: Duration = Duration::from_secs(300);
/// Minimum number of rows of each of two claims at once. Smaller ones cost more than they gain.
const SHARE: usize = 250;
/// Maximum number of rows of each of two claims at once, so that the handlers have rows while the next ones are claimed.
const SHARE_MAX: usize = 500;
/// Number of claims that each of the two may make until the caller looks at what else is to be done.
const CLAIMS_IN_A_ROW: usize = 8;

/// Claims rows for a caller that processes all of them immediately.
///
/// If the previous claim on a row expired, that counts as an additional attempt.
pub(crate) async fn claim_at_once<S: Store + ?Sized>(
    store: &S,
    request: Claim,
) -> Result<Vec<Row>, StoreError> {
    let fence = Fence::Owner(request.owner.clone());
    let mut rows = store.claim(request).await?;
    let lapsed = rows.iter_mut().filter(|row| row.lapsed);
    let attempt = |row: &mut Row| {
        row.attempts = row.attempts.saturating_add(1);
        let change = Change::Attempt { attempts: row.attempts };
        Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change }
    };
    let mut outcomes: Vec<Outcome> = lapsed.map(attempt).collect();
    if !outcomes.is_empty() {
        // All settles lock their rows in this order, which prevents deadlocks.
        outcomes.sort_by_key(|outcome| outcome.seq);
        let (outcomes, on_done) = (outcomes.into(), OnDone::Keep);
        store.settle(Settle { fence, outcomes, on_done, repeats: None, now: None }).await?;
    }
    Ok(rows)
}

/// How many messages a claimer may have in memory before they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// As many as there is room for.
    Fixed,
    /// As many as the handlers finish in a short time, as far as there is room.
    FollowsHandlers,
}

/// What two calls that claim at once know of each other.
#[derive(Debug, Default)]
struct Pair {
    /// Maximum number of rows of one claim.
    most: usize,
    /// Rows that claims under way have asked for.
    asked: AtomicUsize,
    /// Whether a claim has failed, or found less than it asked for.
    over: AtomicBool,
}

impl Pair {
    /// Number of rows of the next claim, which is under way from here on; `None` if it is not worth it. While nobody
    /// else claims, half of the room is left to the other.
    fn begin(&self, room: usize) -> Option<usize> {
        let asked = self.asked.load(Ordering::Relaxed);
        let rows = if asked == 0 { room / 2 } else { room.saturating_sub(asked) }.min(self.most);
        let begins = rows >= SHARE && !self.over.load(Ordering::Relaxed);
        begins.then(|| {
            self.asked.fetch_add(rows, Ordering::Relaxed);
            rows
        })
    }

    /// Takes note of a claim's answer.
    fn ended(
        &self,
        rows: usize,
        claimed: Result<(usize, usize), StoreError>,
    ) -> Result<(usize, usize), StoreError> {
        self.asked.fetch_sub(rows, Ordering::Relaxed);
        if !claimed.as_ref().is_ok_and(|(asked, taken)| asked == taken) {
            self.over.store(true, Ordering::Relaxed);
        }
        claimed
    }
}

/// Claims rows of one store for one owner.
pub(crate) struct Claimer {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    owner: OwnerId,
    lease: Lease,
    from: ClaimFrom,
    clock: Mutex<Option<Clock>>,
    /// Whether the last claim took as many rows as it asked for, so that more probably wait.
    backlog: AtomicBool,
}

impl Claimer {
    /// Creates a claimer. From here on the engine settles outcomes under this owner's claims.
    pub(crate) fn new(
        shared: Arc<Shared>,
        store: Arc<dyn Store>,
        owner: OwnerId,
        lease: Lease,
        from: ClaimFrom,
        sizing: Sizing,
    ) -> Self {
        shared.with(|core| {
            core.settle_by(Fence::Owner(owner.clone()));
            core.size_claims(sizing, lease);
            core.read_from(ClaimSource::default());
        });
        Self { shared, store, owner, lease, from, clock: Mutex::new(None), backlog: AtomicBool::new(false) }
    }

    /// Claims at most `rows` rows of these topics, or of all topics if the list is empty, as
    /// far as there is room. A backlog is claimed by two claims at once, each on a connection, because one
    /// alone keeps only one processor of the server busy.
    ///
    /// Returns the number of rows requested and the number claimed.
    pub(crate) async fn claim(
        &self,
        rows: usize,
        topics: Arc<[String]>,
    ) -> Result<(usize, usize), StoreError> {
        let (room, bytes) = self.room();
        let first = room.min(rows);
        if first == 0 {
            return Ok((0, 0));
        }
        let clock = self.clock().await?;
        let two = first >= 2 * SHARE
            && self.store.facts().concurrent_claims
            && self.backlog.load(Ordering::Relaxed);
        let (asked, taken) = if two {
            let pair = Pair { most: rows.min(SHARE_MAX), ..Pair::default() };
            let one = self.claim_in_a_row(&pair, Arc::clone(&topics), clock);
            let other = self.claim_in_a_row(&pair, topics, clock);
            // Rows of the one are in memory even if the other fails.
            let (one, other) = tokio::join!(one, other);
            let ((asked, taken), (more, also)) = (one?, other?);
            (asked + more, taken + also)
        } else {
            self.claim_share(first, bytes, topics, clock).await?
        };
        self.backlog.store(taken == asked, Ordering::Relaxed);
        Ok((asked, taken))
    }

    /// Room in memory: number of rows, and bytes.
    fn room(&self) -> (usize, ByteLimits) {
        match self.shared.with(|core| core.next_claim(Instant::now())) {
            Read::Claim { rows, bytes } => (rows, bytes),
            _ => (0, ByteLimits { row: 0, total: 0 }),
        }
    }

    /// Claims again and again beside another call, until there is no room for a claim of its own, or until one of the
    /// two has found that nothing more waits.
    async fn claim_in_a_row(
        &self,
        pair: &Pair,
        topics: Arc<[String]>,
        clock: Clock,
    ) -> Result<(usize, usize), StoreError> {
        let mut whole = (0, 0);
        for _ in 0..CLAIMS_IN_A_ROW {
            let (room, bytes) = self.room();
            let Some(rows) = pair.begin(room) else { break };
            let bytes = ByteLimits { total: bytes.total / 2, ..bytes };
            let claimed = self.claim_share(rows, bytes, Arc::clone(&topics), clock).await;
            let (asked, taken) = pair.ended(rows, claimed)?;
            whole = (whole.0 + asked, whole.1 + taken);
        }
        Ok(whole)
    }

    async fn claim_share(
        &self,
        rows: usize,
        bytes: ByteLimits,
        topics: Arc<[String]>,
        clock: Clock,
    ) -> Result<(usize, usize), StoreError> {
        let asked = Instant::now();
        let (owner, lease) = (self.owner.clone(), self.lease.length());
        let skip_recent = self.shared.settings.skip_recent;
        let claim = Claim { from: self.from, topics, owner, lease, rows, bytes, skip_recent, now: None };
        let claimed = self.store.claim(claim).await?;
        let mut taken = claimed.len();
        // A claim that was cut short by its byte limit left rows behind, so it counts as a full batch.
        let cut = bytes.reached_by(claimed.iter().map(|row| row.bytes).sum());
        let rows = if cut { taken } else { rows };
        if taken > 0 {
            let until = asked + self.lease.usable_for();
            let back = self.merge(ReadResult::Claimed { rows: claimed, clock, until }, asked);
            self.tell_lease();
            if !back.is_empty() {
                taken -= back.len();
                self.settle(back.into()).await?;
                // These rows can be claimed again once the unconfirmed outcomes are settled.
                self.merge(ReadResult::GaveBack, asked);
            }
        }
        Ok((rows, taken))
    }

    /// Merges an answer into the current incarnation. Claims belong to the owner, not to a node, so the rows
    /// must be admitted or released even after a restart of the engine.
    fn merge(&self, answer: ReadResult, at: Instant) -> Vec<Outcome> {
        self.shared.with(|core| {
            let incarnation = core.incarnation();
            core.merge(answer, incarnation, Asked { at, now: Instant::now() })
        })
    }

    /// Returns the database's clock, read again when the last comparison is too old.
    async fn clock(&self) -> Result<Clock, StoreError> {
        let known = *self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = known.filter(|clock| clock.here.elapsed() < CLOCK_HOLDS) {
            return Ok(clock);
        }
        let database = self.store.now().await?;
        let clock = Clock { database, here: Instant::now() };
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
        Ok(clock)
    }

    /// Renews all held leases every third of the lease, until `stop`.
    pub(crate) async fn renew_until(&self, heart: HeartbeatRuntime, stop: CancellationToken) {
        let mut pause = self.lease.renew_after();
        let bound = self.shared.settings.deadline.max(self.lease.length());
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            if let Some(silent) = heart.stalled(bound) {
                let store = self.store();
                tracing::error!(
                    store,
                    ?silent,
                    "the runtime is blocked: claims are not renewed, so that others take over"
                );
                continue;
            }
            let renewed = caught(self.renew()).await.unwrap_or_else(|panic| {
                let detail = format!("panicked: {panic}");
                Err(StoreError::new(ErrorKind::Unexpected, "renew", self.store(), detail))
            });
            pause = match renewed {
                Ok(0) => self.lease.renew_after(),
                // Other transactions have locked these rows. No one can claim them until the locks end, so
                // the renewal is retried soon.
                Ok(_) => self.lease.renew_after() / 4,
                Err(error) => {
                    tracing::warn!(store = self.store(), %error, "claims could not be renewed, trying again");
                    self.lease.renew_after() / 4
                }
            };
        }
    }

    /// Renews all leases. Returns the number of rows that other transactions have locked.
    async fn renew(&self) -> Result<usize, StoreError> {
        let lease = self.lease.length();
        let outcomes: Arc<[_]> = self.shared.with(|core| core.extensions(lease)).into();
        if outcomes.is_empty() {
            return Ok(0);
        }
        let asked = Instant::now();
        let settled = self.settle(Arc::clone(&outcomes)).await?;
        let until = asked + self.lease.usable_for();
        let lost = self.shared.with(|core| core.extended(&outcomes, &settled, until));
        self.tell_lease();
        if lost > 0 {
            tracing::debug!(store = self.store(), messages = lost, "claims ended before they were renewed");
        }
        Ok(settled.busy.len())
    }

    async fn settle(&self, outcomes: Arc<[Outcome]>) -> Result<Settled, StoreError> {
        let fence = Fence::Owner(self.owner.clone());
        let on_done = OnDone::Keep;
        self.store.settle(Settle { fence, outcomes, on_done, repeats: None, now: None }).await
    }

    /// Publishes the end of the lease to the workers, which drop deliveries that outlast it.
    fn tell_lease(&self) {
        let until = self.shared.with(|core| core.claimed_until());
        self.shared.lease.send_if_modified(|lease| std::mem::replace(lease, until) != until);
    }

    fn store(&self) -> &str {
        self.shared.store_name()
    }
}
