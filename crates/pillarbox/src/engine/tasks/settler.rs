//! The settler task: settles outcomes in batches, and retries while the node is not evicted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::engine::shared::Shared;
use crate::engine::steps::settlement::{Batch, NextSettle};
use crate::port::{Change, ErrorKind, Fence, OnDone, Outcome, Settle, Settled, Store, StoreError};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of calls by [`settle_now`] for rows that others have locked, which take about 1.3 s.
const TRIES: u32 = 7;

/// Runs until `stop` and until nothing is left to settle, or until `give_up`.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken, give_up: CancellationToken) {
    loop {
        match shared.with(|core| core.next_settle(Instant::now())) {
            NextSettle::Batch { fence, batch, incarnation } => {
                settle(&shared, &give_up, fence, batch, incarnation).await;
            }
            NextSettle::Linger(until) => tokio::select! {
                biased;
                () = shared.settle.notified() => {}
                // At that time only outcomes of rows that others have locked are left.
                () = give_up.cancelled() => return,
                () = sleep_until(until) => {}
            },
            NextSettle::Beside => tokio::select! {
                biased;
                () = shared.settle.notified() => {}
                () = give_up.cancelled() => return,
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

/// Settles beside [`run`] where that leaves enough for a second batch, until `stop`.
pub(crate) async fn run_second(shared: Arc<Shared>, stop: CancellationToken, give_up: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = shared.settle_second.notified() => {}
            () = stop.cancelled() => {}
        }
        while let NextSettle::Batch { fence, batch, incarnation } =
            shared.with(|core| core.next_second_settle(Instant::now()))
        {
            settle(&shared, &give_up, fence, batch, incarnation).await;
        }
        // The first settler may have waited for this batch.
        shared.settle.notify_one();
    }
}

/// Settles one batch. A failed call is retried and never counts as a failure of the listener.
async fn settle(
    shared: &Shared,
    give_up: &CancellationToken,
    fence: Fence,
    mut batch: Batch,
    incarnation: u64,
) {
    let on_done =
        if shared.keeps_done.load(Ordering::Relaxed) { OnDone::Keep } else { shared.settings.on_done };
    let outcomes = Arc::clone(&batch.outcomes);
    let mut request = Settle { fence, outcomes, on_done, repeats: batch.repeats, now: None };
    let mut pause = FIRST_PAUSE;
    let (began, mut repeated) = (Instant::now(), false);
    loop {
        let answer = if repeated {
            repeat(shared, &mut request, began).await
        } else {
            shared.table.settle(request.clone()).await
        };
        match answer {
            Ok(settled) => {
                batch.repeats = request.repeats;
                return confirm(shared, batch, &settled, incarnation);
            }
            Err(error) if error.kind() == ErrorKind::Permission && request.on_done == OnDone::Delete => {
                keep_done(shared, &error);
                request.on_done = OnDone::Keep;
                continue;
            }
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
        repeated = true;
    }
}

/// Settles again what the first call may have settled, which began at this local time.
async fn repeat(shared: &Shared, request: &mut Settle, began: Instant) -> Result<Settled, StoreError> {
    let fails = |outcome: &Outcome| matches!(outcome.change, Change::Retry { .. } | Change::Dead { .. });
    // Under a claim, the first call has ended the claim of what it settled, so the repeated one finds it stale.
    let claimed = matches!(request.fence, Fence::Owner(_));
    if !claimed && request.repeats.is_none() && request.outcomes.iter().any(fails) {
        // The database read its clock before the answer arrived, so the difference is before the first call.
        let now = shared.table.now().await?;
        request.repeats = Some(now.saturating_sub(began.elapsed()).unwrap_or(Timestamp::MIN));
    }
    shared.table.settle(request.clone()).await
}

/// Switches from deleting to keeping done rows if the permission to delete is missing: without a done mark,
/// delivered events would be redelivered.
fn keep_done(shared: &Shared, error: &StoreError) {
    shared.keeps_done.store(true, Ordering::Relaxed);
    let store = shared.store_name();
    tracing::warn!(
        store,
        %error,
        "may not delete delivered events: they are kept, marked as done, until this process restarts"
    );
}

/// Settles for a caller that waits for the answer. Retries rows that others have
/// locked, up to [`TRIES`] calls.
pub(crate) async fn settle_now(
    store: &(impl Store + ?Sized),
    mut request: Settle,
) -> Result<Settled, StoreError> {
    let mut places: Vec<usize> = (0..request.outcomes.len()).collect();
    let mut whole = Settled::all_but(Vec::new());
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=TRIES {
        let settled = store.settle(request.clone()).await?;
        whole.held &= settled.held;
        whole.reused |= settled.reused;
        whole.stale.extend(settled.stale.iter().map(|place| places[*place]));
        if settled.busy.is_empty() {
            break;
        }
        if attempt == TRIES {
            let detail = format!("{} rows are locked by another transaction", settled.busy.len());
            return Err(StoreError::new(ErrorKind::Timeout, "settle", &store.facts().name, detail));
        }
        request.outcomes = settled.busy.iter().map(|place| request.outcomes[*place].clone()).collect();
        places = settled.busy.iter().map(|place| places[*place]).collect();
        sleep(pause).await;
        pause *= 2;
    }
    whole.stale.sort_unstable();
    Ok(whole)
}

fn confirm(shared: &Shared, batch: Batch, settled: &Settled, incarnation: u64) {
    if !settled.held {
        let (store, events) = (shared.store_name(), settled.stale.len());
        tracing::warn!(store, events, "ownership lost: outcomes were ignored");
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
        shared.heartbeat.notify_one();
    }
}
