//! Writers in a process: what they commit goes to the hot queue of their own node.

use std::sync::Arc;

use pillarbox::events::Transaction;
use pillarbox::port::{CommitError, OnDone};
use pillarbox::{Event, Outbox};

use crate::chance::{Chance, pass};
use crate::history::{EventNo, What};
use crate::store::NodeStore;
use crate::world::World;
use crate::writer;

/// Writes now and then, as long as its process lives and there is trouble.
pub(crate) async fn run(world: Arc<World>, outbox: Outbox<NodeStore>) {
    let pause = 2 * world.plan.trouble.as_millis() as u64 / world.plan.load.transactions as u64;
    while world.in_trouble() {
        pass(world.draw(|rng| rng.millis(0, pause))).await;
        let unknown = transact(&world, &outbox).await;
        if !unknown.is_empty() && world.draw(fastrand::Rng::bool) {
            write_again(&world, &outbox, unknown).await;
        }
    }
}

/// One transaction; its events if nobody knows whether it committed.
async fn transact(world: &World, outbox: &Outbox<NodeStore>) -> Vec<(EventNo, Event)> {
    let Ok(mut tx) = outbox.begin().await else { return Vec::new() };
    let mut written = Vec::new();
    for place in 0..world.draw(|rng| rng.usize(1..=3)) {
        pass(writer::open_for(world)).await;
        let (no, event) = writer::event(world, tx.number, place);
        tx.write(event.clone()).expect("a good event");
        written.push((no, event));
        if world.draw(|rng| rng.chance(0.2)) && tx.flush().await.is_err() {
            return Vec::new();
        }
    }
    pass(writer::open_for(world)).await;
    if end(world, tx).await { written } else { Vec::new() }
}

/// True if nobody knows what became of it.
async fn end(world: &World, tx: Transaction<NodeStore>) -> bool {
    let (undone, dropped) = world.draw(|rng| (rng.chance(world.plan.load.undone), rng.bool()));
    match (undone, dropped) {
        (true, true) => drop(tx),
        (true, false) => drop(tx.rollback().await),
        (false, _) => return matches!(tx.commit().await, Err(CommitError::Unknown(_))),
    }
    false
}

/// The same events with the same ids, as a caller does who was not told.
async fn write_again(world: &World, outbox: &Outbox<NodeStore>, events: Vec<(EventNo, Event)>) {
    world.reached("hot path", "written again after an unknown commit");
    let Ok(mut tx) = outbox.begin().await else { return };
    // A row that is deleted when it is done is not there to be found again, unless it has a message id.
    let keeps = world.plan.tuning.on_done == OnDone::Keep;
    for (no, event) in events.into_iter().filter(|(_, event)| keeps || event.message_id().is_some()) {
        world.tell_again(no, tx.number);
        world.record(What::Wrote { tx: tx.number, event: no });
        tx.write(event).expect("a good event");
    }
    drop(tx.commit().await);
}
