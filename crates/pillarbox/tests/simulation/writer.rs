//! Writers: transactions that draw numbers early and commit late, or not at all.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::memory::{MemoryTransaction, Unreadable};
use pillarbox::model::{EventId, GroupKey, NewRow, Placement};
use pillarbox::port::{Begin, Order, WriteOn};

use crate::chance::{Chance, pass};
use crate::history::{EventNo, What};
use crate::plan::Scenario;
use crate::world::{Nature, Told, World};

/// Writes its share of the transactions over the time of trouble.
pub(crate) async fn run(world: Arc<World>) {
    let count = world.plan.load.transactions / world.plan.load.writers + 1;
    for _ in 0..count {
        pass(world.some_time(1.6 / count as f64)).await;
        if world.draw(|rng| rng.chance(world.plan.load.malformed)) {
            plant(&world);
        } else {
            transact(&world).await;
        }
    }
}

async fn transact(world: &World) {
    let tx_no = world.new_transaction();
    world.record(What::Began { tx: tx_no });
    let mut tx = world.store.begin().await.expect("the memory store begins");
    for place in 0..world.draw(|rng| rng.usize(1..=3)) {
        pass(open_for(world)).await;
        let row = row(world, tx_no, place);
        world.store.insert(&mut tx, &[row]).await.expect("the memory store inserts");
    }
    pass(open_for(world)).await;
    end(world, tx_no, tx).await;
}

async fn end(world: &World, tx_no: usize, tx: MemoryTransaction) {
    let (undone, dropped) = world.draw(|rng| (rng.chance(world.plan.load.undone), rng.bool()));
    match (undone, dropped) {
        (true, true) => drop(tx),
        (true, false) => world.store.rollback(tx).await.expect("the memory store rolls back"),
        (false, _) => world.store.commit(tx).await.expect("the memory store commits"),
    }
    if undone {
        world.reached("transaction", if dropped { "dropped" } else { "rolled back" });
        return world.record(What::Undone { tx: tx_no });
    }
    world.record(What::Committed { tx: tx_no });
    world.hint();
}

/// How long a transaction stays open between two steps.
pub(crate) fn open_for(world: &World) -> Duration {
    let most = world.plan.load.open_ms;
    world.draw(|rng| if rng.bool() { rng.millis(0, most) } else { Duration::ZERO })
}

fn row(world: &World, tx: usize, place: usize) -> NewRow {
    NewRow { event: event(world, tx, place).1, placement: placement(world) }
}

/// An event of some kind, told to the world as written by this transaction.
pub(crate) fn event(world: &World, tx: usize, place: usize) -> (EventNo, Event) {
    let load = &world.plan.load;
    let group = group(world);
    let (due, expires) = world.draw(|rng| {
        let due = rng.chance(load.delayed).then(|| rng.millis(1, 8_000));
        (due, rng.chance(load.expiring).then(|| rng.millis(1, 8_000)))
    });
    let id = EventId::new(format!("t{tx}e{place}")).expect("an id");
    let now = world.store.clock().now();
    let no = world.tell(Told {
        id: id.clone(),
        group: group.clone(),
        txs: vec![tx],
        delayed: due.is_some(),
        expires: expires.map(|after| now + after),
        malformed: false,
        nature: nature(world),
    });
    world.record(What::Wrote { tx, event: no });
    let mut builder = Event::text("thing.happened", "{}").id(id.as_str()).occurred_at(now);
    if let Some(group) = &group {
        builder = builder.group(group.as_str());
    }
    if world.draw(fastrand::Rng::bool) {
        builder = builder.message_id(id.as_str());
    }
    if let Some(after) = due {
        builder = builder.due(after);
    }
    if let Some(after) = expires {
        builder = builder.expires(now + after);
    }
    (no, builder.build().expect("an event"))
}

fn group(world: &World) -> Option<GroupKey> {
    let load = &world.plan.load;
    world.draw(|rng| {
        let alone = rng.chance(load.ungrouped);
        (!alone).then(|| GroupKey::new(format!("g{}", rng.usize(..load.groups))))
    })
}

fn nature(world: &World) -> Nature {
    let load = &world.plan.load;
    let nature = world.draw(|rng| {
        if rng.chance(load.killers) {
            Nature::Kills
        } else if rng.chance(load.poison) {
            rng.one(&[Nature::Fails, Nature::Refused, Nature::Panics])
        } else {
            Nature::Good
        }
    });
    // A panic in the midst of a batch hides that a part of it was taken.
    let hides =
        nature == Nature::Panics && world.plan.scenario == Scenario::Calm && world.plan.tuning.batch > 1;
    if hides { Nature::Fails } else { nature }
}

/// Unordered rows may be in a node's lane, also in one whose node is gone.
fn placement(world: &World) -> Placement {
    let lanes = world.truth().lanes();
    if world.plan.tuning.order == Order::PerGroup || lanes.is_empty() || world.draw(fastrand::Rng::bool) {
        return Placement::Slot;
    }
    Placement::Lane(world.draw(|rng| rng.one(&lanes)))
}

/// A row that someone else wrote badly.
fn plant(world: &World) {
    let tx = world.new_transaction();
    let id = EventId::new(format!("t{tx}m")).expect("an id");
    let group = group(world);
    world.record(What::Began { tx });
    let event = world.tell(Told {
        id: id.clone(),
        group: group.clone(),
        txs: vec![tx],
        delayed: false,
        expires: None,
        malformed: true,
        nature: Nature::Good,
    });
    world.record(What::Wrote { tx, event });
    let unreadable = Unreadable { id, event_type: "?".to_owned(), group, reason: "no payload".to_owned() };
    world.store.plant(unreadable);
    world.record(What::Committed { tx });
    world.hint();
}
