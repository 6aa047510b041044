//! The reader: reads rows when there is room, on wake-ups and at least once per poll interval.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::engine::shared::Shared;
use crate::engine::sources::{Asked, Failed, Read, ReadResult};
use crate::model::Lane;
use crate::port::{
    AnyTable, ErrorKind, Fence, ItemStore, Promote, Promoted, ReadScope, Store, StoreError, Wakeups,
};

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(200);
/// A duration long enough to mean never, and short enough to be added to an `Instant`.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Runs until `stop`; a read in progress is completed.
pub(crate) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    // A node that reads only its own lane needs no wake-ups and polls: it wrote those rows itself, or learns
    // of them at the next heartbeat.
    let (mut hints, interval) = match shared.settings.reads {
        ReadScope::Share => (shared.table.wakeups(), shared.settings.poll_interval),
        ReadScope::OwnLane => (None, NEVER),
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

async fn idle(shared: &Shared, stop: &CancellationToken, hints: Option<&mut Wakeups>, until: Instant) {
    // If the sender of wake-ups has ended, only polls find new rows.
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

/// Performs one read. Returns false if the store failed.
async fn act(shared: &Shared, read: Read, incarnation: u64) -> bool {
    let at = Instant::now();
    let (failed, answer) = match read {
        Read::Slots { fetch, version } => {
            let fetched = async { native(shared)?.fetch(fetch).await }.await;
            (Failed::Slots, fetched.map(|fetched| ReadResult::Slots { fetched, version }))
        }
        Read::Group { key, fetch } => {
            let fetched = async { native(shared)?.fetch(fetch).await }.await;
            (Failed::Group(key.clone()), fetched.map(|fetched| ReadResult::Group { key, fetched }))
        }
        Read::Sweep(fetch) => {
            let fetched = async { native(shared)?.fetch(fetch).await };
            (Failed::Sweep, fetched.await.map(ReadResult::Sweep))
        }
        Read::Promote { lane, rows } => {
            (Failed::Promote, promote(shared, lane, rows).await.map(ReadResult::Promoted))
        }
        Read::Take(take) => {
            let taken = async { items(shared)?.take(take.clone()).await };
            (Failed::Take, taken.await.map(|taken| ReadResult::Taken { take, taken }))
        }
        Read::Recover(request) => {
            let recovered = async { items(shared)?.recover(request).await };
            (Failed::Recover, recovered.await.map(ReadResult::Recovered))
        }
        Read::Claim { .. } | Read::Idle(_) => return true,
    };
    match answer {
        Ok(answer) => {
            report(shared, &answer);
            let asked = Asked { at, now: Instant::now() };
            // Only claims release rows this way, and the reader does not claim.
            shared.with(|core| drop(core.merge(answer, incarnation, asked)));
            true
        }
        Err(error) => {
            shared.with(|core| core.read_failed(failed, incarnation, Instant::now()));
            tracing::error!(%error, "reading failed, trying again");
            false
        }
    }
}

/// The table as a native store. A source only makes requests that its kind of table supports.
fn native(shared: &Shared) -> Result<&dyn Store, StoreError> {
    match &shared.table {
        AnyTable::Native(store) => Ok(&**store),
        AnyTable::Items(_) => Err(mismatched(shared)),
    }
}

/// The table as an item store.
fn items(shared: &Shared) -> Result<&dyn ItemStore, StoreError> {
    match &shared.table {
        AnyTable::Items(store) => Ok(&**store),
        AnyTable::Native(_) => Err(mismatched(shared)),
    }
}

fn mismatched(shared: &Shared) -> StoreError {
    let detail = "this kind of table does not support this read";
    StoreError::new(ErrorKind::Unsupported, "read", shared.store_name(), detail)
}

fn report(shared: &Shared, answer: &ReadResult) {
    match answer {
        ReadResult::Recovered(rows) if *rows > 0 => {
            let store = shared.store_name();
            tracing::info!(store, rows, "released rows that were taken and that no process has in memory");
        }
        // Another node leads. A heartbeat updates the slots that this node believes to hold.
        ReadResult::Taken { taken, .. } if !taken.leads => shared.heartbeat.notify_one(),
        _ => {}
    }
}

async fn promote(shared: &Shared, lane: Lane, rows: usize) -> Result<Promoted, StoreError> {
    let (fence, order) = (shared.with(|core| core.fence().clone()), shared.settings.order);
    let Fence::Node(node) = fence else {
        return Ok(Promoted::default());
    };
    native(shared)?.promote(Promote { node, lane, order, rows, now: None }).await
}
