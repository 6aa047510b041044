//! The groups in memory: their queues, and the reasons why a group waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::item::Item;
use crate::engine::Map;
use crate::model::{GroupKey, Seq, Slot};

/// Why a group is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupHold {
    /// The store lists it as blocked or paused.
    Listed,
    /// Its first event died here, and the store's list does not show the block yet. The value is the number
    /// of heartbeats begun when the block was confirmed: only lists of later heartbeats are sure to show it.
    Blocking(Option<u64>),
}

/// One group in memory. A held group keeps no rows; they are read again when it is released.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) slot: Slot,
    pub(crate) queue: VecDeque<Item>,
    /// Whether a batch is being delivered.
    pub(crate) out: bool,
    /// Backoff: nothing is sent before this time, because the first event failed or is not due.
    pub(crate) until: Option<Instant>,
    /// Number of unsettled outcomes for which the group waits.
    pub(crate) settling: u32,
    pub(crate) hold: Option<GroupHold>,
    /// Number from which rows of the group are pending in the store but not in memory.
    pub(crate) missed: Option<Seq>,
    /// Whether its first event is quarantined.
    pub(crate) quarantined: bool,
    /// Position among the groups that are ready to send.
    rank: Option<u64>,
    /// Position among the groups to be read.
    turn: Option<u64>,
}

impl Group {
    fn new(slot: Slot) -> Self {
        Self {
            slot,
            queue: VecDeque::new(),
            out: false,
            until: None,
            settling: 0,
            hold: None,
            missed: None,
            quarantined: false,
            rank: None,
            turn: None,
        }
    }

    fn backing_off(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Whether rows that are read may enter its queue. With `missed` set they may not: earlier rows
    /// are still in the store.
    pub(crate) fn takes_rows(&self, room: usize) -> bool {
        self.hold.is_none()
            && self.until.is_none()
            && self.settling == 0
            && self.missed.is_none()
            && self.queue.len() < room
    }

    fn can_go(&self, now: Instant) -> bool {
        !self.out
            && !self.queue.is_empty()
            && self.hold.is_none()
            && !self.backing_off(now)
            && self.settling == 0
    }

    fn can_read(&self, now: Instant, ahead: bool) -> bool {
        self.missed.is_some()
            && self.hold.is_none()
            && self.settling == 0
            && !self.backing_off(now)
            && (!self.out || ahead)
            && self.queue.is_empty()
    }

    /// Whether the group can leave memory.
    ///
    /// Of a group that the store lists, only the key is kept, in that list. When it is released, it
    /// is read from its start.
    fn idle(&self) -> bool {
        let listed = self.hold == Some(GroupHold::Listed);
        let waits = self.until.is_some() || self.hold.is_some() || self.missed.is_some();
        self.queue.is_empty() && !self.out && self.settling == 0 && !self.quarantined && (listed || !waits)
    }

    /// Notes that rows from this number on must be read from the store.
    pub(crate) fn miss(&mut self, seq: Seq) {
        self.missed = Some(self.missed.map_or(seq, |missed| missed.min(seq)));
    }

    /// Inserts an item in the order of sequence numbers.
    pub(crate) fn insert(&mut self, item: Item) {
        let at = self.queue.partition_point(|other| other.seq < item.seq);
        self.queue.insert(at, item);
    }
}

/// All groups that have events in memory, or wait for anything but an operator.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    table: Map<GroupKey, Group>,
    ready: BTreeMap<u64, GroupKey>,
    waking: BTreeSet<(Instant, GroupKey)>,
    to_read: BTreeMap<u64, GroupKey>,
    tickets: u64,
    oldest_first: bool,
    /// Whether more rows of a group are taken while one of its batches is being delivered.
    ahead: bool,
    /// Groups of which a row returned to the store since the take in progress began. That take may bring
    /// later rows of the group, which must not overtake the returned row.
    overtaken: Option<BTreeSet<GroupKey>>,
}

impl Groups {
    pub(crate) fn new(oldest_first: bool) -> Self {
        Self { oldest_first, ..Self::default() }
    }

    /// Sets whether more rows of a group are taken while one of its batches is being delivered.
    ///
    /// Only sources that take rows do this: rows taken ahead of a failing batch can be released.
    pub(crate) fn read_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
    }

    /// Starts to track groups of which a row returns to the store.
    pub(crate) fn watch_overtaken(&mut self) {
        self.overtaken = Some(BTreeSet::new());
    }

    /// Notes that a row of this group returns to the store; rows of a take in progress come after it.
    pub(crate) fn overtakes(&mut self, key: &GroupKey) {
        if let Some(overtaken) = &mut self.overtaken {
            overtaken.insert(key.clone());
        }
    }

    /// Stops tracking, and returns the groups of which a row returned to the store since the take began.
    pub(crate) fn take_overtaken(&mut self) -> BTreeSet<GroupKey> {
        self.overtaken.take().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&GroupKey, &Group)> {
        self.table.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.table.get(key)
    }

    pub(crate) fn entry(&mut self, key: &GroupKey, slot: Slot) -> &mut Group {
        self.table.entry(key.clone()).or_insert_with(|| Group::new(slot))
    }

    pub(crate) fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.table.get_mut(key)
    }

    pub(crate) fn keys(&self) -> Vec<GroupKey> {
        let mut keys: Vec<_> = self.table.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Updates the indexes after a change of a group: ready to send, waking, to be read, or out of memory.
    pub(crate) fn place(&mut self, key: &GroupKey, now: Instant) {
        let Some(group) = self.table.get_mut(key) else {
            return;
        };
        if group.until.is_some_and(|until| until <= now) {
            group.until = None;
        }
        if let Some(until) = group.until {
            self.waking.insert((until, key.clone()));
        }
        match (group.can_go(now), group.rank) {
            (true, None) => {
                self.tickets += 1;
                let head = group.queue.front().map_or(0, |item| item.seq.0.unsigned_abs());
                let rank = if self.oldest_first { head } else { self.tickets };
                group.rank = Some(rank);
                self.ready.insert(rank, key.clone());
            }
            (false, Some(rank)) => {
                group.rank = None;
                self.ready.remove(&rank);
            }
            _ => {}
        }
        match (group.can_read(now, self.ahead), group.turn) {
            (true, None) => {
                self.tickets += 1;
                group.turn = Some(self.tickets);
                self.to_read.insert(self.tickets, key.clone());
            }
            (false, Some(turn)) => {
                group.turn = None;
                self.to_read.remove(&turn);
            }
            _ => {}
        }
        if group.idle() {
            self.table.remove(key);
        }
    }

    /// Places groups whose backoff has ended. Returns the end of the next backoff.
    pub(crate) fn wake(&mut self, now: Instant) -> Option<Instant> {
        while let Some((until, key)) = self.waking.first().cloned() {
            if until > now {
                return Some(until);
            }
            self.waking.pop_first();
            self.place(&key, now);
        }
        None
    }

    pub(crate) fn next_waking(&self) -> Option<Instant> {
        self.waking.first().map(|(until, _)| *until)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Number of the first event of the next ready group.
    pub(crate) fn head(&self) -> Option<Seq> {
        let (_, key) = self.ready.first_key_value()?;
        self.table.get(key)?.queue.front().map(|item| item.seq)
    }

    /// Takes at most `batch` events of the next ready group, which sends nothing else
    /// until the batch is back.
    pub(crate) fn pop(&mut self, batch: usize) -> Option<(GroupKey, Vec<Item>)> {
        let (_, key) = self.ready.pop_first()?;
        let group = self.table.get_mut(&key)?;
        group.rank = None;
        group.out = true;
        let count = if group.quarantined { 1 } else { Item::batch_of(&group.queue, batch) };
        let mut items: Vec<Item> = group.queue.drain(..count).collect();
        if std::mem::take(&mut group.quarantined)
            && let Some(first) = items.first_mut()
        {
            first.quarantined = true;
        }
        Some((key, items))
    }

    /// Takes the next group that needs its own read.
    pub(crate) fn next_to_read(&mut self) -> Option<GroupKey> {
        let (_, key) = self.to_read.pop_first()?;
        if let Some(group) = self.table.get_mut(&key) {
            group.turn = None;
        }
        Some(key)
    }

    pub(crate) fn wants_read(&self) -> bool {
        !self.to_read.is_empty()
    }

    /// Removes a group's rows from memory, and notes to read it again from the first of them.
    pub(crate) fn unload(&mut self, key: &GroupKey) -> Vec<Item> {
        let Some(group) = self.table.get_mut(key) else {
            return Vec::new();
        };
        let items: Vec<Item> = group.queue.drain(..).collect();
        if let Some(first) = items.first() {
            group.miss(first.seq);
        }
        items
    }

    /// Removes the rows of all groups from memory. The caller must rewind the cursor: no
    /// group notes what it misses.
    pub(crate) fn take_queued(&mut self, now: Instant) -> Vec<Item> {
        let queued = self.table.iter().filter(|(_, group)| !group.queue.is_empty());
        let keys: Vec<GroupKey> = queued.map(|(key, _)| key.clone()).collect();
        let mut items = Vec::new();
        for key in keys {
            if let Some(group) = self.table.get_mut(&key) {
                items.extend(group.queue.drain(..));
            }
            self.place(&key, now);
        }
        items
    }

    /// Slots of groups that are not held and have a quarantined event.
    pub(crate) fn quarantined_slots(&self) -> impl Iterator<Item = Slot> {
        let quarantined = |group: &&Group| group.quarantined && group.hold.is_none();
        self.table.values().filter(quarantined).map(|group| group.slot)
    }

    /// Removes the groups of a slot, and returns their rows in memory.
    pub(crate) fn drop_slot(&mut self, slot: Slot) -> Vec<Item> {
        let mut dropped = Vec::new();
        for key in self.keys() {
            let Some(group) = self.table.get_mut(&key).filter(|group| group.slot == slot) else {
                continue;
            };
            dropped.extend(group.queue.drain(..));
            if let Some(rank) = group.rank.take() {
                self.ready.remove(&rank);
            }
            if let Some(turn) = group.turn.take() {
                self.to_read.remove(&turn);
            }
            self.table.remove(&key);
        }
        dropped
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { ahead: self.ahead, overtaken: self.overtaken.take(), ..Self::new(self.oldest_first) };
    }
}
