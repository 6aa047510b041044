//! The reader: reads slots and groups as there is room, on hints, and at least once in a poll interval.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::intake::Read;
use super::shared::Shared;
use crate::model::Lane;
use crate::port::{Fence, Hints, Part, Promote, Recover, StoreError, Take};

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(200);
/// As good as never, and still a moment that can be told.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Runs until it is told to stop; a read under way is finished.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    // What a node that reads only its own lane has to read, it knows by itself or learns at the next beat.
    let (mut hints, interval) = match shared.settings.part {
        Part::Share => (shared.store.hints(), shared.settings.poll_interval),
        Part::OwnLane => (None, NEVER),
    };
    let mut poll_at = Instant::now() + interval;
    while !stop.is_cancelled() {
        let (read, incarnation) = shared.with(|core| (core.next_read(Instant::now()), core.incarnation()));
        let ok = match read {
            Read::Idle(until) => {
                let until = until.map_or(poll_at, |until| until.min(poll_at));
                idle(&shared, &stop, hints.as_mut(), until).await;
                if Instant::now() >= poll_at {
                    shared.with(|core| core.poll_tick(Instant::now()));
                    poll_at = Instant::now() + interval;
                }
                true
            }
            read => act(&shared, read, incarnation).await,
        };
        if !ok {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sleep(PAUSE_AFTER_ERROR) => {}
            }
        }
    }
}

async fn idle(shared: &Shared, stop: &CancellationToken, hints: Option<&mut Hints>, until: Instant) {
    // A store that went away gives no more hints; polling goes on.
    let hinted = async {
        if let Some(hints) = hints
            && hints.0.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = shared.read.notified() => {}
        () = hinted => shared.with(|core| core.hint_elsewhere(Instant::now())),
        () = sleep_until(until) => {}
    }
}

/// Does one read; false if the store failed.
async fn act(shared: &Shared, read: Read, incarnation: u64) -> bool {
    let asked = Instant::now();
    let result = match read {
        Read::Slots { fetch, rewinds } => match shared.store.fetch(fetch).await {
            Ok(fetched) => {
                shared.with(|core| core.merge_slots(fetched, rewinds, incarnation, asked, Instant::now()));
                Ok(())
            }
            Err(error) => {
                shared.with(|core| core.read_failed(None, Instant::now()));
                Err(error)
            }
        },
        Read::Group { key, fetch } => match shared.store.fetch(fetch).await {
            Ok(fetched) => {
                shared.with(|core| core.merge_group(&key, fetched, incarnation, asked, Instant::now()));
                Ok(())
            }
            Err(error) => {
                shared.with(|core| core.read_failed(Some(&key), Instant::now()));
                Err(error)
            }
        },
        Read::Sweep(fetch) => match shared.store.fetch(fetch).await {
            Ok(fetched) => {
                shared.with(|core| core.merge_sweep(&fetched, incarnation, Instant::now()));
                Ok(())
            }
            Err(error) => {
                shared.with(|core| core.sweep_failed(Instant::now()));
                Err(error)
            }
        },
        Read::Promote { lane, rows } => promote(shared, lane, rows).await,
        Read::Take(request) => take(shared, request, incarnation).await,
        Read::Recover(request) => recover(shared, request, incarnation).await,
        Read::Idle(_) => Ok(()),
    };
    if let Err(error) = &result {
        tracing::error!(%error, "reading failed, trying again");
    }
    result.is_ok()
}

async fn take(shared: &Shared, request: Take, incarnation: u64) -> Result<(), StoreError> {
    let Some(lead) = shared.store.lead() else {
        return Ok(());
    };
    match lead.take(request.clone()).await {
        Ok(taken) => {
            let leads = taken.leads;
            shared.with(|core| core.merge_taken(&request, taken, incarnation, Instant::now()));
            if !leads {
                shared.member.notify_one();
            }
            Ok(())
        }
        Err(error) => {
            shared.with(|core| core.take_failed(incarnation, Instant::now()));
            Err(error)
        }
    }
}

async fn recover(shared: &Shared, request: Recover, incarnation: u64) -> Result<(), StoreError> {
    let Some(lead) = shared.store.lead() else {
        return Ok(());
    };
    let given_back = lead.recover(request).await?;
    if given_back > 0 {
        tracing::info!(
            store = shared.store_name(),
            rows = given_back,
            "gave back rows that nobody had in hand"
        );
    }
    shared.with(|core| core.recovered(given_back, incarnation, Instant::now()));
    Ok(())
}

async fn promote(shared: &Shared, lane: Lane, rows: usize) -> Result<(), StoreError> {
    let (fence, order) = (shared.with(|core| core.fence().clone()), shared.settings.order);
    let Fence::Node(node) = fence else {
        return Ok(());
    };
    match shared.store.promote(Promote { node, lane, order, rows, now: None }).await {
        Ok(promoted) => {
            shared.with(|core| core.promoted(&promoted, Instant::now()));
            Ok(())
        }
        Err(error) => {
            shared.with(|core| core.promotion_failed(Instant::now()));
            Err(error)
        }
    }
}
