//! Groups that the store lists as blocked or paused. Only their keys are in memory: they may be as many as there are groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::timeout;

use crate::model::{GroupKey, Slot};
use crate::port::{ErrorKind, GroupStates, HeldGroups, StoreError, Table};

/// The whole list, of which the answer to a heartbeat was the first page.
#[derive(Debug)]
pub(crate) struct HeldList {
    pub(crate) epoch: i64,
    pub(crate) groups: BTreeSet<GroupKey>,
}

impl HeldList {
    /// Reads the pages after the one in the heartbeat's answer. A group that changes meanwhile makes the epoch grow, so that the next
    /// heartbeat begins a new list. It takes no longer than `within`: pages are read on connections of the application, which may be blocked,
    /// and heartbeats have to go on.
    pub(crate) async fn read(
        store: &dyn Table,
        first: Option<GroupStates>,
        within: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let Some(first) = first else { return Ok(None) };
        let listed = timeout(within, Self::follow(store, first)).await;
        let late =
            |_| StoreError::new(ErrorKind::Timeout, "groups", &store.facts().name, "the list takes too long");
        listed.map_err(late)?.map(Some)
    }

    async fn follow(store: &dyn Table, first: GroupStates) -> Result<Self, StoreError> {
        let GroupStates { epoch, held } = first;
        let mut next = HeldGroups::first().following(&held);
        let mut list = Self { epoch, groups: held.into_iter().map(|held| held.group).collect() };
        while let Some(request) = next {
            let page = store.admin().groups(request.clone()).await?;
            next = request.following(&page);
            list.groups.extend(page.into_iter().map(|held| held.group));
        }
        Ok(list)
    }
}

/// The groups of the last list.
#[derive(Debug, Default)]
pub(crate) struct HeldGroupKeys {
    groups: BTreeSet<GroupKey>,
    /// Those whose first event is quarantined once they are released, with their slots.
    quarantined: BTreeMap<GroupKey, Slot>,
    /// Grows with each list.
    version: u64,
}

impl HeldGroupKeys {
    pub(crate) fn contains(&self, key: &GroupKey) -> bool {
        self.groups.contains(key)
    }

    /// Which list this is.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// A crashed node may have died of the first event of this group.
    pub(crate) fn distrust(&mut self, key: GroupKey, slot: Slot) {
        self.quarantined.insert(key, slot);
    }

    /// The next holder of the slot is told what is suspect in it.
    pub(crate) fn drop_slot(&mut self, slot: Slot) {
        self.quarantined.retain(|_, of| *of != slot);
    }

    /// No slot is held any more.
    pub(crate) fn drop_slots(&mut self) {
        self.quarantined.clear();
    }

    /// Takes a new list over; those of the last one that are not in it, with the slot where the first event is quarantined.
    pub(crate) fn replace(&mut self, groups: BTreeSet<GroupKey>) -> Vec<(GroupKey, Option<Slot>)> {
        self.version += 1;
        let last = std::mem::replace(&mut self.groups, groups);
        let released = last.into_iter().filter(|key| !self.groups.contains(key));
        released
            .map(|key| {
                let quarantined = self.quarantined.remove(&key);
                (key, quarantined)
            })
            .collect()
    }
}
