//! What calls do in the one store, and what is noted of it.

use std::sync::Arc;

use pillarbox::model::{NodeId, Record, SlotSet};
use pillarbox::port::{
    Change, Fence, Fetch, Fetched, Heartbeat, Membership, Outcome, Promote, Promoted, Register, Scope,
    Settle, Settled, Store, StoreError, Table,
};

use crate::chance::Chance;
use crate::history::{Life, Member, Settled as Row, Settling, What};
use crate::truth;
use crate::world::World;

/// A read of slots may pass a row by: its cursor goes on as if the row had been answered.
pub(crate) async fn fetch(world: Arc<World>, request: Fetch) -> Result<Fetched, StoreError> {
    let of_slots = matches!(request.scope, Scope::Slots { .. });
    let mut fetched = world.store.fetch(request).await?;
    let chance = world.plan.store.passes_by;
    let may_pass = of_slots && chance > 0.0 && !fetched.rows.is_empty() && world.in_trouble();
    if may_pass && world.draw(|rng| rng.chance(chance)) {
        let place = world.draw(|rng| rng.usize(..fetched.rows.len()));
        fetched.rows.remove(place);
        world.reached("fetch", "passes a row by");
    }
    Ok(fetched)
}

pub(crate) async fn join(world: Arc<World>, life: Life, request: Register) -> Result<Membership, StoreError> {
    let node = request.node;
    let membership = world.store.register(request).await?;
    let member = world.truth().joined(life, node);
    renewed(&world, node, &membership).await;
    world.record(What::Joined { member });
    if member.era > 0 {
        world.reached("node", "joins again after its eviction");
    }
    Ok(membership)
}

pub(crate) async fn heartbeat(
    world: Arc<World>,
    request: Heartbeat,
) -> Result<Option<Membership>, StoreError> {
    let node = request.node;
    if !request.release.is_empty() {
        world.reached("slot", "handed over");
    }
    let membership = world.store.heartbeat(request).await?;
    match &membership {
        Some(membership) => renewed(&world, node, membership).await,
        None => world.reached("heartbeat", "evicted"),
    }
    Ok(membership)
}

async fn renewed(world: &World, node: NodeId, membership: &Membership) {
    let nodes = world.store.admin().nodes().await.expect("the memory store lists nodes");
    let living: Vec<NodeId> = nodes.iter().map(|info| info.node).collect();
    if membership.held.iter().any(|held| held.suspect) {
        world.reached("slot", "taken over from a dead node");
    }
    let member = world.truth().member(node).expect("a member heartbeats");
    if world.truth().renewed(node, membership, &living) {
        let suspect = membership.held.iter().filter(|held| held.suspect).map(|held| held.slot);
        world.record(What::Holds {
            member,
            slots: SlotSet::new(membership.held.iter().map(|held| held.slot)),
            suspect: SlotSet::new(suspect),
            give: SlotSet::new(membership.give.iter().copied()),
        });
    }
}

pub(crate) async fn leave(world: Arc<World>, node: NodeId) -> Result<(), StoreError> {
    world.truth().left(node);
    world.store.leave(node).await
}

pub(crate) async fn promote(world: Arc<World>, request: Promote) -> Result<Promoted, StoreError> {
    let promoted = world.store.promote(request).await?;
    if promoted.moved > 0 {
        world.reached("event", "promoted when due");
    } else if promoted.next_due.is_some_and(|ahead| ahead.is_zero()) {
        world.reached("promote", "moves nothing of what is due");
    }
    Ok(promoted)
}

pub(crate) async fn settle(world: Arc<World>, request: Settle) -> Result<Settled, StoreError> {
    let Fence::Node(node) = request.fence else {
        world.fail("a node settles without its fence");
        return std::future::pending().await;
    };
    let member = world.truth().member(node).expect("a member settles");
    let (outcomes, repeats) = (Arc::clone(&request.outcomes), request.repeats.is_some());
    let mut before = Vec::new();
    for outcome in outcomes.iter() {
        before.push(truth::row(world.store.admin(), &outcome.id).await);
    }
    let settled = settle_free(&world, request).await?;
    let mut rows = Vec::new();
    for (place, (outcome, before)) in outcomes.iter().zip(&before).enumerate() {
        let unchanged = settled.stale.contains(&place) || settled.busy.contains(&place);
        if let (false, Some(before)) = (unchanged, before) {
            rows.push(changed(&world, member, outcome, before).await);
        }
    }
    if repeats {
        note_repeated(&world, &outcomes, &before, &settled);
    }
    note(&world, &settled, &rows);
    world.record(What::Settled { member, rows, stale: settled.stale.len(), held: settled.held });
    Ok(settled)
}

/// Somebody else may have locked a row of it.
async fn settle_free(world: &World, request: Settle) -> Result<Settled, StoreError> {
    let locks = world.plan.store.locked > 0.0 && world.in_trouble() && !request.outcomes.is_empty();
    if !locks || !world.draw(|rng| rng.chance(world.plan.store.locked / 3.0)) {
        return world.store.settle(request).await;
    }
    let locked = world.draw(|rng| rng.usize(..request.outcomes.len()));
    let free: Vec<usize> = (0..request.outcomes.len()).filter(|place| *place != locked).collect();
    let outcomes = free.iter().map(|place| request.outcomes[*place].clone()).collect();
    let settled = world.store.settle(Settle { outcomes, ..request }).await?;
    if !settled.held {
        return Ok(Settled::lost(free.len() + 1));
    }
    let stale = settled.stale.iter().map(|place| free[*place]).collect();
    Ok(Settled { stale, busy: vec![locked], ..settled })
}

async fn changed(world: &World, member: Member, outcome: &Outcome, before: &Record) -> Row {
    let after = truth::row(world.store.admin(), &outcome.id).await;
    Row {
        event: world.event(&outcome.id),
        change: kind(&outcome.change),
        ours: world.truth().holds(member.life, before.slot),
        attempts: after.map(|row| row.attempts),
    }
}

fn kind(change: &Change) -> Settling {
    match change {
        Change::Done => Settling::Done,
        Change::Retry { .. } => Settling::Retry,
        Change::Dead { error, blocks, .. } => {
            Settling::Dead { error: error.clone(), blocks: blocks.is_some() }
        }
        Change::Delay => Settling::Delay,
        Change::Attempt { .. } => Settling::Attempt,
        Change::Waits { .. } => Settling::Waits,
        Change::Release { .. } => Settling::Release,
        Change::Extend { .. } => unreachable!("nodes claim nothing"),
    }
}

/// What a settle found that repeats one whose answer was lost.
fn note_repeated(world: &World, outcomes: &[Outcome], before: &[Option<Record>], settled: &Settled) {
    for (place, (outcome, before)) in outcomes.iter().zip(before).enumerate() {
        let Some(before) = before.as_ref().filter(|row| row.seq == outcome.seq) else { continue };
        let refused = settled.stale.contains(&place) && before.status.is_pending();
        match &outcome.change {
            Change::Retry { counts, .. } if refused && before.attempts == counts.attempts() => {
                world.reached("settle", "repeats a failure that was counted");
            }
            Change::Dead { .. } if refused => world.reached("settle", "spares what was replayed meanwhile"),
            Change::Attempt { attempts } if before.attempts == *attempts => {
                world.reached("settle", "repeats an attempt that was counted");
            }
            _ => {}
        }
    }
}

fn note(world: &World, settled: &Settled, rows: &[Row]) {
    if !settled.held {
        world.reached("settle", "fenced");
    } else if !settled.stale.is_empty() {
        world.reached("settle", "stale");
    }
    if !settled.busy.is_empty() {
        world.reached("settle", "finds a row locked");
    }
    if settled.reused {
        world.reached("settle", "names a number given again");
    }
    for row in rows {
        let fact = match &row.change {
            Settling::Done => "done",
            Settling::Retry => "retried",
            Settling::Dead { blocks: true, .. } => "dead, blocking its group",
            Settling::Dead { error, .. } if error.starts_with("expired") => "dead, expired",
            Settling::Dead { error, .. } if error.starts_with("undecodable") => "dead, undecodable",
            Settling::Dead { .. } => "dead",
            Settling::Delay => "put off",
            Settling::Attempt => "tried with care",
            Settling::Waits => "noted why it waits",
            Settling::Release => "released",
        };
        world.reached("event", fact);
    }
}
