//! An operator: replays, cancels, discards and purges events; pauses, resumes, unblocks and skips groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::model::{EventId, GroupKey, Record, Status};
use pillarbox::port::{
    Cancel, Discard, GroupAction, GroupChange, GroupState, HeldGroup, HeldGroups, List, Purge, PurgeStatus,
    Replay, Select, Table,
};

use crate::chance::{Chance, pass};
use crate::history::{Act, What};
use crate::world::World;

const BY: &str = "operator";

/// Acts now and then while there is trouble.
pub(crate) async fn run(world: Arc<World>) {
    while world.in_trouble() {
        pass(world.draw(|rng| rng.millis(50, 1_500))).await;
        if world.in_trouble() && world.draw(|rng| rng.chance(world.plan.incidents.operator)) {
            act(&world).await;
        }
    }
}

async fn act(world: &World) {
    match world.draw(|rng| if world.plan.cancels { 2 } else { rng.usize(..10) }) {
        0 | 1 => replay(world).await,
        2 => cancel(world).await,
        3 => discard(world).await,
        4 => purge(world).await,
        5 => pause(world).await,
        6 => for_some_group(world, GroupAction::Resume).await,
        7 => for_some_group(world, GroupAction::Skip).await,
        _ => for_some_group(world, GroupAction::Unblock).await,
    }
}

async fn rows(world: &World, statuses: &[Status]) -> Vec<Record> {
    let select = Select { statuses: statuses.to_vec(), ..Select::default() };
    let list = List { select, limit: usize::MAX, ..List::default() };
    world.store.admin().list(list).await.expect("the memory store lists")
}

async fn some_row(world: &World, statuses: &[Status]) -> Option<EventId> {
    let rows = rows(world, statuses).await;
    (!rows.is_empty()).then(|| world.draw(|rng| rows[rng.usize(..rows.len())].id.clone()))
}

fn acted(world: &World, id: &EventId, act: Act) {
    world.record(What::Acted { event: world.event(id), act });
}

fn one(id: &EventId) -> Select {
    Select { ids: vec![id.clone()], ..Select::default() }
}

async fn replay(world: &World) {
    let Some(id) = some_row(world, &[Status::Dead]).await else { return };
    let request = Replay { select: one(&id), limit: 1, by: BY.to_owned(), now: None };
    world.store.admin().replay(request).await.expect("the memory store replays");
    world.reached("operator", "replays");
    acted(world, &id, Act::Replayed);
    world.hint();
}

async fn cancel(world: &World) {
    let Some(id) = some_row(world, &[Status::New, Status::Retry]).await else { return };
    let request = Cancel { ids: vec![id], by: BY.to_owned(), now: None };
    for id in world.store.admin().cancel(request).await.expect("the memory store cancels") {
        world.reached("operator", "cancels");
        if world.outage.load(Ordering::Relaxed) {
            world.reached("operator", "cancels during an outage");
        }
        acted(world, &id, Act::Cancelled);
    }
}

async fn discard(world: &World) {
    let Some(id) = some_row(world, &[Status::Dead]).await else { return };
    let request = Discard { select: one(&id), limit: 1, by: BY.to_owned(), now: None };
    world.store.admin().discard(request).await.expect("the memory store discards");
    world.reached("operator", "discards");
    acted(world, &id, Act::Removed);
}

async fn purge(world: &World) {
    let status = world.draw(|rng| rng.one(&[PurgeStatus::Done, PurgeStatus::Dead]));
    let of = if status == PurgeStatus::Done { Status::Done } else { Status::Dead };
    let before = rows(world, &[of]).await;
    let request = Purge { status, older_than: Duration::from_secs(2), limit: 3, now: None };
    world.store.admin().purge(request).await.expect("the memory store purges");
    let after = rows(world, &[of]).await;
    for row in before.iter().filter(|row| after.iter().all(|left| left.id != row.id)) {
        world.reached("operator", "purges");
        acted(world, &row.id, Act::Removed);
    }
}

async fn pause(world: &World) {
    let groups = world.plan.load.groups;
    let group = GroupKey::new(format!("g{}", world.draw(|rng| rng.usize(..groups))));
    change(world, group, GroupAction::Pause).await;
}

async fn for_some_group(world: &World, action: GroupAction) {
    let held = held(world).await;
    if !held.is_empty() {
        let group = world.draw(|rng| held[rng.usize(..held.len())].group.clone());
        change(world, group, action).await;
    }
}

/// The groups that are held back.
pub(crate) async fn held(world: &World) -> Vec<HeldGroup> {
    world.store.admin().groups(HeldGroups::first()).await.expect("the memory store lists groups")
}

async fn change(world: &World, group: GroupKey, action: GroupAction) {
    let head = held(world).await.into_iter().find(|held| held.group == group).and_then(|held| held.event);
    let dead = rows(world, &[Status::Dead]).await;
    let head = head.filter(|head| dead.iter().any(|row| row.id == *head));
    let request = GroupChange { group: group.clone(), action, reason: None, by: BY.to_owned(), now: None };
    if !world.store.admin().change_group(request).await.expect("the memory store changes groups") {
        return;
    }
    let fact = match action {
        GroupAction::Pause => "pauses",
        GroupAction::Resume => "resumes",
        GroupAction::Unblock => "unblocks",
        GroupAction::Skip => "skips",
    };
    world.reached("operator", fact);
    world.record(What::Note(format!("operator {fact} {group}")));
    if let (GroupAction::Unblock, Some(id)) = (action, head) {
        acted(world, &id, Act::Replayed);
    }
}

/// Lets every group go that is held back.
pub(crate) async fn free_groups(world: &World) {
    for held in held(world).await {
        let action = match held.state {
            GroupState::Blocked => GroupAction::Skip,
            GroupState::Paused => GroupAction::Resume,
        };
        change(world, held.group, action).await;
    }
}
