//! The settler: reports outcomes in batches and tries again while ownership holds.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::settlement::{Batch, NextSettle};
use super::shared::Shared;
use crate::port::{Fence, Settle, Settled};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Runs until it is told to stop and has nothing left to settle, or to give up what it can't settle.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken, give_up: CancellationToken) {
    loop {
        match shared.with(|core| core.next_settle(Instant::now())) {
            NextSettle::Batch { fence, batch, incarnation } => {
                settle(&shared, &give_up, fence, batch, incarnation).await;
            }
            NextSettle::Linger(until) => tokio::select! {
                biased;
                () = shared.settle.notified() => {}
                () = sleep_until(until) => {}
            },
            NextSettle::Empty if stop.is_cancelled() => return,
            NextSettle::Empty => tokio::select! {
                biased;
                () = shared.settle.notified() => {}
                () = stop.cancelled() => {}
            },
        }
    }
}

/// Settles one batch. A failure after a good delivery is tried again, and is never the listener's.
async fn settle(shared: &Shared, give_up: &CancellationToken, fence: Fence, batch: Batch, incarnation: u64) {
    let on_done = shared.settings.on_done;
    let request = Settle { fence, outcomes: Arc::clone(&batch.outcomes), on_done, now: None };
    let mut pause = FIRST_PAUSE;
    loop {
        match shared.store.settle(request.clone()).await {
            Ok(settled) => return confirm(shared, batch, &settled, incarnation),
            Err(error) => {
                let (store, events) = (shared.store_name(), batch.outcomes.len());
                tracing::error!(store, %error, events, "settling failed, trying again");
            }
        }
        let stale = shared.with(|core| core.is_past(incarnation));
        if stale || give_up.is_cancelled() {
            return;
        }
        tokio::select! {
            biased;
            () = give_up.cancelled() => {}
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn confirm(shared: &Shared, batch: Batch, settled: &Settled, incarnation: u64) {
    if !settled.held {
        let (store, events) = (shared.store_name(), batch.outcomes.len());
        tracing::warn!(store, events, "ownership lost: outcomes were not taken");
    }
    if settled.reused {
        let (store, stale) = (shared.store_name(), settled.stale.len());
        tracing::warn!(
            store,
            stale,
            "numbers were given again: outcomes were not taken, reading starts anew"
        );
    }
    shared.with(|core| {
        let now = Instant::now();
        if settled.held {
            core.settled(batch, settled, incarnation, now);
        } else if !core.is_past(incarnation) {
            core.lost(now);
        }
    });
    if !settled.held {
        shared.member.notify_one();
    }
}
