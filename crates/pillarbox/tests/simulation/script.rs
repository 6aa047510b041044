//! The course of a run: trouble, then calm until everything has drained, then the end.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::Status;
use pillarbox::port::{List, Select, Table};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::chance::pass;
use crate::checker::Ending;
use crate::world::World;
use crate::{node, operator, outages, writer};

/// Everything that is not held back drains within this, once faults stop.
const DRAIN: Duration = Duration::from_secs(600);
/// Closing takes no longer.
const CLOSE: Duration = Duration::from_secs(1_000);

/// Plays a run and tells how it ended.
pub(crate) async fn play(world: &Arc<World>) -> Ending {
    let mut nodes = JoinSet::new();
    for index in 0..world.plan.nodes {
        nodes.spawn(node::run(Arc::clone(world), index == 0));
    }
    let mut others = JoinSet::new();
    for _ in 0..world.plan.load.writers {
        others.spawn(writer::run(Arc::clone(world)));
    }
    others.spawn(operator::run(Arc::clone(world)));
    others.spawn(outages::run(Arc::clone(world)));
    pass(world.plan.trouble).await;
    world.calm();
    while let Some(ended) = others.join_next().await {
        ended.expect("no part of the script panics");
    }
    let drained = drain(world).await;
    // Calls that hung when the faults stopped are answered before the nodes close.
    pass(world.plan.tuning.lease * 7).await;
    world.end();
    let ended = timeout(CLOSE, async { while nodes.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        world.fail("a node does not close");
    }
    Ending { pending: pending(world).await, left_behind: left_behind(world).await, drained }
}

async fn drain(world: &Arc<World>) -> Option<Duration> {
    let start = Instant::now();
    while start.elapsed() < DRAIN {
        if world.plan.frees_groups {
            operator::free_groups(world).await;
        }
        let pending = pending(world).await;
        if pending.iter().all(|(_, held)| *held && !world.plan.frees_groups) {
            return Some(start.elapsed());
        }
        pass(Duration::from_secs(1)).await;
    }
    None
}

/// What is pending, and whether its group is held back.
async fn pending(world: &Arc<World>) -> Vec<(usize, bool)> {
    let held = operator::held(world).await;
    let select = Select { statuses: vec![Status::New, Status::Retry], ..Select::default() };
    let list = List { select, limit: usize::MAX, ..List::default() };
    let rows = world.store.admin().list(list).await.expect("the memory store lists");
    let is_held = |group: &Option<_>| held.iter().any(|held| Some(&held.group) == group.as_ref());
    rows.iter().map(|row| (world.event(&row.id).0, is_held(&row.group))).collect()
}

/// Members that closed in calm and are still there.
async fn left_behind(world: &Arc<World>) -> usize {
    let nodes = world.store.admin().nodes().await.expect("the memory store lists nodes");
    nodes.iter().filter(|info| world.closed_well(info.node)).count()
}
