//! What befalls the store and the endpoint as a whole: jumps of the clock, failovers, read-only times, outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::SignedDuration;

use crate::chance::{Chance, pass};
use crate::history::{Act, What};
use crate::world::World;

/// Changes now and then while there is trouble.
pub(crate) async fn run(world: Arc<World>) {
    while world.in_trouble() {
        pass(world.draw(|rng| rng.millis(100, 2_000))).await;
        if world.in_trouble() {
            turn(&world);
        }
    }
}

fn turn(world: &World) {
    let incidents = &world.plan.incidents;
    if world.draw(|rng| rng.chance(incidents.jump_forward)) {
        jump(world, 1);
    }
    if world.draw(|rng| rng.chance(incidents.jump_back)) {
        jump(world, -1);
    }
    if incidents.put_back > 0.0 && world.draw(|rng| rng.chance(incidents.put_back)) {
        put_back(world);
    }
    season(world, &world.read_only, world.plan.store.read_only, "read-only");
    season(world, &world.outage, world.plan.sink.outages, "down");
}

fn jump(world: &World, sign: i64) {
    let seconds = sign * world.draw(|rng| rng.i64(1..=30));
    world.store.clock().jump(SignedDuration::from_secs(seconds));
    world.record(What::Jumped { seconds });
    world.reached("clock", if sign > 0 { "jumps forward" } else { "jumps back" });
}

/// A failover to a copy that is behind: the newest commits are gone, and their numbers are given again.
fn put_back(world: &World) {
    let rows = world.draw(|rng| rng.usize(1..=5));
    for id in world.store.put_back(rows) {
        world.record(What::Acted { event: world.event(&id), act: Act::TakenBack });
        world.reached("store", "gives numbers again");
    }
}

/// Begins with its chance and ends soon.
fn season(world: &World, flag: &AtomicBool, share: f64, name: &'static str) {
    let on = flag.load(Ordering::Relaxed);
    let next = world.draw(|rng| if on { rng.chance(0.5) } else { rng.chance(share) });
    flag.store(next, Ordering::Relaxed);
    if next && !on {
        world.reached("outages", name);
        world.record(What::Note(format!("{name} from here")));
    } else if on && !next {
        world.record(What::Note(format!("no longer {name}")));
    }
}
