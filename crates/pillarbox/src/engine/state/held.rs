//! Held groups: the keys of all groups that the store lists as blocked or paused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::timeout;

use crate::model::{GroupKey, Slot};
use crate::port::{ErrorKind, GroupStates, HeldGroups, StoreError, Table};

/// The complete list of held groups. The answer to a heartbeat contains its first page.
#[derive(Debug)]
pub(crate) struct HeldList {
    pub(crate) epoch: i64,
    pub(crate) groups: BTreeSet<GroupKey>,
}

impl HeldList {
    /// Reads the pages that follow the one in the heartbeat's answer.
    ///
    /// If a group changes meanwhile, the epoch increases and the next heartbeat starts a new list.
    /// The read is limited to `within`: it uses the application's connections, which may be
    /// blocked, and heartbeats must continue.
    pub(crate) async fn read(
        store: &dyn Table,
        first: Option<GroupStates>,
        within: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let Some(first) = first else { return Ok(None) };
        let listed = timeout(within, Self::follow(store, first)).await;
        let late =
            |_| StoreError::new(ErrorKind::Timeout, "groups", &store.facts().name, "the list took too long");
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

/// The groups of the last list. Only keys are in memory, since all groups may be held.
#[derive(Debug, Default)]
pub(crate) struct HeldGroupKeys {
    groups: BTreeSet<GroupKey>,
    /// Groups whose first event is quarantined when they are released, with their slots.
    quarantined: BTreeMap<GroupKey, Slot>,
    /// Increases with each list.
    version: u64,
}

impl HeldGroupKeys {
    pub(crate) fn contains(&self, key: &GroupKey) -> bool {
        self.groups.contains(key)
    }

    /// Version of the current list.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Notes that the first event of this group may have crashed a node.
    pub(crate) fn distrust(&mut self, key: GroupKey, slot: Slot) {
        self.quarantined.insert(key, slot);
    }

    /// Forgets the quarantine of a slot's groups when the slot is handed over.
    pub(crate) fn drop_slot(&mut self, slot: Slot) {
        self.quarantined.retain(|_, of| *of != slot);
    }

    /// Forgets the quarantine of all groups when the node is lost.
    pub(crate) fn drop_slots(&mut self) {
        self.quarantined.clear();
    }

    /// Replaces the list. Returns the released groups, with their slot if their first event is quarantined.
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
