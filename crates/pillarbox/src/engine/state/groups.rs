//! Groups: the order within each, and what holds one back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::item::Item;
use crate::engine::Map;
use crate::model::{GroupKey, Seq, Slot};

/// Why a group does not move, beyond having a batch out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Blocked or paused in the store.
    Listed,
    /// Its head died here; not yet known to be in the store's list. The heartbeat in which its block was confirmed.
    Blocking(Option<u64>),
}

/// One group in memory. It holds rows only while it moves; one that is held back is read again when it is released.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) slot: Slot,
    pub(crate) queue: VecDeque<Item>,
    /// Whether a batch is out.
    pub(crate) out: bool,
    /// Its head failed: nothing before this time.
    pub(crate) until: Option<Instant>,
    /// Outcomes under way that hold it back.
    pub(crate) settling: u32,
    pub(crate) hold: Option<Hold>,
    /// Rows from this number on are in the store and not in memory.
    pub(crate) missed: Option<Seq>,
    /// Its first event is quarantined.
    pub(crate) quarantined: bool,
    rank: Option<u64>,
    /// Its turn among those to be read.
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

    /// Whether rows that are read go into its queue.
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

    /// Whether it leaves memory. Of a group that the store lists nothing is kept but its key, in that list: when it is released,
    /// everything is read from the beginning.
    fn idle(&self) -> bool {
        let listed = self.hold == Some(Hold::Listed);
        let waits = self.until.is_some() || self.hold.is_some() || self.missed.is_some();
        self.queue.is_empty() && !self.out && self.settling == 0 && !self.quarantined && (listed || !waits)
    }

    pub(crate) fn miss(&mut self, seq: Seq) {
        self.missed = Some(self.missed.map_or(seq, |missed| missed.min(seq)));
    }

    /// Puts an item in its place by number.
    pub(crate) fn insert(&mut self, item: Item) {
        let at = self.queue.partition_point(|other| other.seq < item.seq);
        self.queue.insert(at, item);
    }
}

/// All groups that have something in memory, or wait for something else than an operator.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    table: Map<GroupKey, Group>,
    ready: BTreeMap<u64, GroupKey>,
    waking: BTreeSet<(Instant, GroupKey)>,
    to_read: BTreeMap<u64, GroupKey>,
    tickets: u64,
    oldest_first: bool,
    /// A group is read on while a batch of it is out.
    ahead: bool,
    /// Groups of which a row went back to the store since the read under way began: it may have taken what comes behind.
    overtaken: Option<BTreeSet<GroupKey>>,
}

impl Groups {
    pub(crate) fn new(oldest_first: bool) -> Self {
        Self { oldest_first, ..Self::default() }
    }

    /// Whether a group is read on while a batch of it is out. Where rows are taken, what was taken ahead of a failing batch can be
    /// given back.
    pub(crate) fn read_ahead(&mut self, ahead: bool) {
        self.ahead = ahead;
    }

    /// From here on groups are noted of which a row goes back to the store.
    pub(crate) fn watch_overtaken(&mut self) {
        self.overtaken = Some(BTreeSet::new());
    }

    /// A row of this group goes back to the store: what a read under way brings of it comes behind that.
    pub(crate) fn overtakes(&mut self, key: &GroupKey) {
        if let Some(overtaken) = &mut self.overtaken {
            overtaken.insert(key.clone());
        }
    }

    /// The groups of which a row went back to the store since the read began.
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

    /// Puts a group where its state says: among the ready, the waking, those to be read, or out of memory.
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

    /// Groups whose time has come are placed again; the next time one wakes.
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

    /// The number of the first event of the group whose turn it is.
    pub(crate) fn head(&self) -> Option<Seq> {
        let (_, key) = self.ready.first_key_value()?;
        self.table.get(key)?.queue.front().map(|item| item.seq)
    }

    /// Takes up to `batch` events of the group whose turn it is; the group is then out.
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

    /// The next group to be read on its own.
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

    /// Takes a group's rows out of memory; they are read again from its first one.
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

    /// Takes the rows of all groups out of memory, without a note of where to read them again.
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

    /// The slots of groups that move and have a quarantined event.
    pub(crate) fn quarantined_slots(&self) -> impl Iterator<Item = Slot> {
        let quarantined = |group: &&Group| group.quarantined && group.hold.is_none();
        self.table.values().filter(quarantined).map(|group| group.slot)
    }

    /// Forgets the groups of a slot; their rows in memory.
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
