//! Settles of one node that are under way at once: they may have no event and no group in common.

use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::port::{Fence, Order, Settle, Settled, StoreError};

use crate::history::EventNo;
use crate::world::World;

/// The settles without an answer: their number, who makes them, and what they are about.
#[derive(Debug, Default)]
pub(crate) struct UnderWay(Mutex<Vec<(usize, Fence, Vec<EventNo>)>>);

/// One settle, from its request to its answer or to the end of its sender.
pub(crate) struct Call {
    world: Arc<World>,
    number: usize,
    fence: Fence,
}

impl Call {
    pub(crate) fn begin(world: &Arc<World>, request: &Settle) -> Self {
        let events: Vec<EventNo> = request.outcomes.iter().map(|one| world.event(&one.id)).collect();
        let call = Self { world: Arc::clone(world), number: world.new_call(), fence: request.fence.clone() };
        for other in call.others() {
            world.reached("settle", "beside another");
            if other.iter().any(|event| events.iter().any(|own| is_apart(world, *event, *own))) {
                world.fail("two settles at once are about the same event or group");
            }
        }
        let mut calls = world.settles.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((call.number, call.fence.clone(), events));
        drop(calls);
        call
    }

    /// What the other settles of this node are about.
    fn others(&self) -> Vec<Vec<EventNo>> {
        let calls = self.world.settles.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = calls.iter().filter(|(number, fence, _)| *fence == self.fence && *number != self.number);
        others.map(|(_, _, events)| events.clone()).collect()
    }

    pub(crate) fn answered(&self, answer: &Result<Settled, StoreError>) {
        if self.others().is_empty() {
            return;
        }
        match answer {
            Err(_) => self.world.reached("settle", "fails beside another"),
            Ok(settled) if !settled.held => self.world.reached("settle", "fenced beside another"),
            Ok(_) => {}
        }
    }
}

/// Whether outcomes of these two must not be settled at the same time.
fn is_apart(world: &World, one: EventNo, other: EventNo) -> bool {
    let group = |event| world.told(event).group.filter(|_| world.plan.tuning.order == Order::PerGroup);
    one == other || group(one).is_some_and(|own| group(other) == Some(own))
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = self.world.settles.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|(number, _, _)| *number != self.number);
    }
}
