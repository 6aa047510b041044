//! The heartbeat task: registers a node, renews its lease and exchanges slots.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::caught::caught;
use super::heartbeat_runtime::HeartbeatRuntime;
use crate::engine::shared::Shared;
use crate::engine::state::held::HeldList;
use crate::model::NodeId;
use crate::port::{Heartbeat, Membership, Register, StoreError, Wakeups};

/// Minimum pause between heartbeats while slots change hands.
const SOONEST: Duration = Duration::from_millis(100);

/// Registers a new node with the store and the core.
pub(crate) async fn register(shared: &Shared) -> Result<(NodeId, Membership), StoreError> {
    let node = shared.with(|core| core.new_node_id());
    let (label, lease) = (shared.settings.label.clone(), shared.settings.lease.length());
    let reads = shared.settings.reads;
    let asked = Instant::now();
    let mut membership = shared.table.register(Register { node, label, reads, lease, now: None }).await?;
    let held = match HeldList::read(&*shared.table, membership.groups.take(), lease).await {
        Ok(held) => held,
        Err(error) => {
            // Nothing may be delivered before the complete list of held groups is known. The
            // next attempt registers another node.
            let _ = shared.table.leave(node).await;
            return Err(error);
        }
    };
    shared.with(|core| core.registered(node, &membership, held, asked, Instant::now()));
    tracing::info!(%node, lane = membership.lane.0, slots = membership.held.len(), "node registered");
    Ok((node, membership))
}

/// Sends heartbeats until `stop`, and registers again after an eviction. Returns the node that must leave.
pub(crate) async fn run(
    shared: Arc<Shared>,
    heart: HeartbeatRuntime,
    stop: CancellationToken,
    mut node: NodeId,
    first: Membership,
    mut departures: Option<Wakeups>,
) -> Option<NodeId> {
    let slots = shared.table.facts().slots;
    let renew = shared.settings.lease.renew_after();
    let mut nodes = first.nodes;
    let mut alive = true;
    let mut failed = false;
    let mut stalled = false;
    let bound = shared.settings.deadline.max(shared.settings.lease.length());
    loop {
        let early = shared.with(|core| core.wants_early_heartbeat(nodes, slots));
        let soon = early || !alive || failed;
        let pause = if soon { (renew / 5).max(SOONEST).min(renew) } else { renew };
        // After a failure the pause is kept even if a signal arrives, so that a failing store is
        // not called in a loop.
        tokio::select! {
            biased;
            () = stop.cancelled() => return alive.then_some(node),
            () = shared.heartbeat.notified(), if !failed => {}
            () = departed(&mut departures), if !failed => {}
            () = sleep_until(Instant::now() + pause) => {}
        }
        failed = false;
        if let Some(silent) = heart.stalled(bound) {
            if !std::mem::replace(&mut stalled, true) {
                let store = shared.store_name();
                tracing::error!(
                    store,
                    ?silent,
                    "the runtime is blocked: heartbeats stop, so that other nodes take over"
                );
            }
            failed = true;
            continue;
        }
        stalled = false;
        if !alive || shared.with(|core| core.is_without_node(node)) {
            match unbroken(&shared, register(&shared)).await {
                Ok((fresh, membership)) => (node, nodes, alive) = (fresh, membership.nodes, true),
                Err(error) => {
                    (alive, failed) = (false, true);
                    tracing::error!(%error, "registering again failed, trying again");
                }
            }
            continue;
        }
        match unbroken(&shared, heartbeat(&shared, node)).await {
            Ok(Some(count)) => nodes = count,
            Ok(None) => {
                tracing::warn!(%node, "node was evicted: its work went to others; registering again");
                shared.with(|core| core.lost(Instant::now()));
                alive = false;
                shared.heartbeat.notify_one();
            }
            Err(error) => {
                failed = true;
                tracing::error!(%error, "heartbeat failed, trying again");
            }
        }
    }
}

/// Waits until a node has left, whose slots are then free.
async fn departed(departures: &mut Option<Wakeups>) {
    let told = match departures {
        Some(departures) => departures.0.changed().await.is_ok(),
        None => false,
    };
    if !told {
        std::future::pending().await
    }
}

/// Awaits a store call. A panic becomes an error and resets the engine's state.
async fn unbroken<T>(
    shared: &Shared,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    caught(call).await.unwrap_or_else(|panic| {
        shared.restart("member", &panic);
        Err(shared.panicked("heartbeat"))
    })
}

/// Sends one heartbeat. Returns the number of nodes, or `None` if this node was evicted.
pub(crate) async fn heartbeat(shared: &Shared, node: NodeId) -> Result<Option<usize>, StoreError> {
    let (request, incarnation) = shared.with(|core| {
        core.expire_reservations(Instant::now());
        (core.next_heartbeat(node, Instant::now()), core.incarnation())
    });
    let released = request.release.clone();
    let asked = Instant::now();
    let answer = heartbeat_and_list(shared, request).await;
    let Some((membership, held)) = answer.inspect_err(|_| shared.with(|core| core.heartbeat_failed()))?
    else {
        return Ok(None);
    };
    let depths = shared.with(|core| {
        // A concurrent settle may have found that the node was evicted; this answer is outdated then.
        if !core.is_past(incarnation) {
            core.renewed(&released, &membership, held, asked, Instant::now());
        }
        core.depths()
    });
    let age = membership.oldest.map(|oldest| membership.now.duration_since(oldest));
    shared.measure(|metrics| {
        metrics.queue_depths(depths.0, depths.1);
        metrics.oldest_lag(age.and_then(|age| age.try_into().ok()).unwrap_or_default());
    });
    Ok(Some(membership.nodes))
}

/// Sends a heartbeat and reads the complete list of held groups.
///
/// Both are applied together: a slot taken by this heartbeat may contain a group
/// that its last holder blocked.
async fn heartbeat_and_list(
    shared: &Shared,
    request: Heartbeat,
) -> Result<Option<(Membership, Option<HeldList>)>, StoreError> {
    let Some(mut membership) = shared.table.heartbeat(request).await? else { return Ok(None) };
    let within = shared.settings.lease.renew_after();
    let held = HeldList::read(&*shared.table, membership.groups.take(), within).await?;
    Ok(Some((membership, held)))
}
