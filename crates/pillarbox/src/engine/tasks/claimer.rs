//! The claimer: takes rows under leases for an engine, renews them, gives back what has run out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::caught::caught;
use super::heart::Heart;
use crate::engine::shared::Shared;
use crate::engine::sources::{Answer, Asked, ClaimSource, Clock, Read};
use crate::model::{OwnerId, Row};
use crate::port::{
    Change, Claim, ClaimFrom, ErrorKind, Fence, OnDone, Outcome, Settle, Settled, Store, StoreError,
};
use crate::rules::Lease;

/// The clocks are compared again after this long.
const CLOCK_HOLDS: Duration = Duration::from_secs(300);

/// Claims for a caller that starts on all rows at once. Where the claim before ran out, that counts as an attempt.
pub(crate) async fn claim_at_once<S: Store + ?Sized>(
    store: &S,
    request: Claim,
) -> Result<Vec<Row>, StoreError> {
    let fence = Fence::Owner(request.owner.clone());
    let mut rows = store.claim(request).await?;
    let lapsed = rows.iter_mut().filter(|row| row.lapsed);
    let attempt = |row: &mut Row| {
        row.attempts = row.attempts.saturating_add(1);
        Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Attempt }
    };
    let mut outcomes: Vec<Outcome> = lapsed.map(attempt).collect();
    if !outcomes.is_empty() {
        // Others lock their rows in this order too.
        outcomes.sort_by_key(|outcome| outcome.seq);
        store.settle(Settle { fence, outcomes: outcomes.into(), on_done: OnDone::Keep, now: None }).await?;
    }
    Ok(rows)
}

/// Claims for one owner on one store.
pub(crate) struct Claimer {
    shared: Arc<Shared>,
    store: Arc<dyn Store>,
    owner: OwnerId,
    lease: Lease,
    from: ClaimFrom,
    clock: Mutex<Option<Clock>>,
}

impl Claimer {
    /// Outcomes of the engine are settled by this owner's claims from here on.
    pub(crate) fn new(
        shared: Arc<Shared>,
        store: Arc<dyn Store>,
        owner: OwnerId,
        lease: Lease,
        from: ClaimFrom,
    ) -> Self {
        shared.with(|core| {
            core.settle_by(Fence::Owner(owner.clone()));
            core.read_from(ClaimSource::default());
        });
        Self { shared, store, owner, lease, from, clock: Mutex::new(None) }
    }

    /// Claims up to this many rows of these topics, or of all topics if none is named, and no more than there is room for. Returns
    /// how many were asked for and how many were taken.
    pub(crate) async fn claim(
        &self,
        rows: usize,
        topics: Arc<[String]>,
    ) -> Result<(usize, usize), StoreError> {
        let Read::Claim { rows: room, bytes } = self.shared.with(|core| core.next_claim(Instant::now()))
        else {
            return Ok((0, 0));
        };
        let rows = rows.min(room);
        if rows == 0 {
            return Ok((0, 0));
        }
        let clock = self.clock().await?;
        let asked = Instant::now();
        let (owner, lease) = (self.owner.clone(), self.lease.length());
        let skip_recent = self.shared.settings.skip_recent;
        let claim = Claim { from: self.from, topics, owner, lease, rows, bytes, skip_recent, now: None };
        let claimed = self.store.claim(claim).await?;
        let mut taken = claimed.len();
        // A claim that ended for its bytes left what it would have taken: all that could be asked for was taken.
        let cut = bytes.reached_by(claimed.iter().map(|row| row.bytes).sum());
        let rows = if cut { taken } else { rows };
        if taken > 0 {
            let until = asked + self.lease.usable_for();
            let back = self.merge(Answer::Claimed { rows: claimed, clock, until }, asked);
            self.tell_lease();
            if !back.is_empty() {
                taken -= back.len();
                self.settle(back.into()).await?;
                // Another claim is worth it once the outcomes here are in the store.
                self.merge(Answer::GaveBack, asked);
            }
        }
        Ok((rows, taken))
    }

    /// Whatever became of the engine meanwhile, claims are the owner's: they are taken in or given back.
    fn merge(&self, answer: Answer, at: Instant) -> Vec<Outcome> {
        self.shared.with(|core| {
            let incarnation = core.incarnation();
            core.merge(answer, incarnation, Asked { at, now: Instant::now() })
        })
    }

    /// The database's time, asked for now and then.
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

    /// Renews what is held at a third of the lease, until it is told to stop.
    pub(crate) async fn renew_until(&self, heart: Heart, stop: CancellationToken) {
        let mut pause = self.lease.renew_after();
        let bound = self.shared.settings.deadline.max(self.lease.length());
        while stop.run_until_cancelled(sleep(pause)).await.is_some() {
            if let Some(silent) = heart.stalled(bound) {
                let store = self.store();
                tracing::error!(
                    store,
                    ?silent,
                    "the runtime runs nothing: claims are not renewed, so that others take over"
                );
                continue;
            }
            let renewed = caught(self.renew()).await.unwrap_or_else(|panic| {
                let detail = format!("panicked: {panic}");
                Err(StoreError::new(ErrorKind::Unexpected, "renew", self.store(), detail))
            });
            pause = match renewed {
                Ok(0) => self.lease.renew_after(),
                // Rows that others have locked: nobody can claim them meanwhile, but soon after.
                Ok(_) => self.lease.renew_after() / 4,
                Err(error) => {
                    tracing::warn!(store = self.store(), %error, "claims could not be renewed, trying again");
                    self.lease.renew_after() / 4
                }
            };
        }
    }

    /// Renews all; how many could not be, since others have locked them.
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
        self.store.settle(Settle { fence, outcomes, on_done: OnDone::Keep, now: None }).await
    }

    /// Those who work on claims have to know how long they may.
    fn tell_lease(&self) {
        let until = self.shared.with(|core| core.claimed_until());
        self.shared.lease.send_if_modified(|lease| std::mem::replace(lease, until) != until);
    }

    fn store(&self) -> &str {
        self.shared.store_name()
    }
}
