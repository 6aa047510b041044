//! Intake: hot pushes by writers, cold rows from reads, events handed in by others.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::breaker::Outlook;
use super::core::{Core, Phase, Unsettled};
use super::item::Item;
use crate::model::{Event, EventId, GroupKey, Lane, Row, Seq, Slot, Status, Token, Written};
use crate::port::{
    ByteLimits, Change, Counts, Fetch, Fetched, Order, Outcome, Promoted, Recover, Scope, Source, Take,
};

/// Groups that may be held back in memory; beyond that reading waits.
pub(super) const GROUPS_MAX: usize = 100_000;

/// A row of a group that is due sooner waits in its place: the clock may have been read for it after it was for us.
const MOMENT: Duration = Duration::from_secs(1);

/// What the reader should do next.
#[derive(Debug)]
pub(crate) enum Read {
    /// Read the slots.
    Slots { fetch: Fetch, rewinds: u64 },
    /// Read one group from where it was left.
    Group { key: GroupKey, fetch: Fetch },
    /// Look for rows that the read position has passed.
    Sweep(Fetch),
    /// Take rows as a leader.
    Take(Take),
    /// Give back rows that nobody has in hand any more.
    Recover(Recover),
    /// Bring delayed rows in.
    Promote { lane: Lane, rows: usize },
    /// Nothing before this time.
    Idle(Option<Instant>),
}

impl Core {
    /// Ids about to be committed on this node's lane; none while it has no lane.
    pub(crate) fn reserve(&mut self, ids: &[EventId], now: Instant) -> Option<(Lane, u64)> {
        if self.phase != Phase::Running || self.settings.order == Order::PerGroup {
            return None;
        }
        let lane = self.lane?;
        for id in ids {
            self.known.reserve(id, now);
        }
        Some((lane, self.incarnation))
    }

    /// Committed: the reserved events go to the hot line. What does not fit is left to the reader.
    pub(crate) fn push_hot(&mut self, events: &[Event], written: &[Written], lane: Lane, incarnation: u64) {
        for (event, written) in events.iter().zip(written) {
            // Only the database's clock tells when an event expires: such events are read.
            let expires = event.expires().is_some();
            let ours = incarnation == self.incarnation && self.phase == Phase::Running && !expires;
            // What would wait for the endpoint is left to the reader, where there is one.
            let ours = ours && !(self.reads_again() && (self.reads_held || self.breaker.is_open()));
            if ours && written.fresh && !written.delayed && self.hot_room() > 0 {
                if self.known.take_reserved(event.id(), written.seq) {
                    self.tally.hot += 1;
                    let item = self.item(event.clone(), written.seq, lane.slot(), Source::Hot);
                    self.enter(&item);
                    self.lines.push(item);
                }
                continue;
            }
            let dropped = ours && written.fresh && !written.delayed;
            self.tally.hot_dropped += u64::from(dropped);
            self.release_reservation(event.id());
        }
    }

    pub(super) fn item(&self, event: Event, seq: Seq, slot: Slot, source: Source) -> Item {
        Item {
            seq,
            slot,
            token: Token::default(),
            attempts: 0,
            counted: false,
            event,
            source,
            group: None,
            expires: None,
            careful: false,
            accepted_before: None,
            outages: 0,
            noted: None,
            blamed_since: None,
            most: usize::MAX,
            led: false,
            careful_attempt: false,
            written: false,
            claimed: None,
            age: None,
        }
    }

    /// Not committed, or nobody knows: the reader decides.
    pub(crate) fn release_reservation(&mut self, id: &EventId) {
        if let Some(seen) = self.known.unreserve(id) {
            self.rewind(seen);
        }
        self.wake = true;
    }

    /// Reservations of commits that never came back.
    pub(crate) fn expire_reservations(&mut self, now: Instant) {
        const LONGEST_COMMIT: Duration = Duration::from_secs(60);
        if let Some(before) = now.checked_sub(LONGEST_COMMIT)
            && let Some(seen) = self.known.expire_reserved(before)
        {
            self.rewind(seen);
            self.wake = true;
        }
    }

    pub(super) fn rewind(&mut self, seq: Seq) {
        self.cursor.decided = self.cursor.decided.min(Seq(seq.0 - 1));
        self.rewinds += 1;
    }

    /// An event handed in by a poller or dispatcher's user; false if there is no room or it is closing.
    pub(crate) fn hand_in(&mut self, row: Row, source: Source) -> bool {
        if self.phase != Phase::Running || self.source_room(source) == 0 {
            return false;
        }
        let Ok(event) = row.event else {
            return false;
        };
        if !self.known.admit(event.id(), row.seq) {
            return true;
        }
        let mut item = self.item(event, row.seq, row.slot, source);
        item.attempts = row.attempts;
        item.token = row.token;
        item.counted = row.token != Token::default();
        match source {
            Source::Hot => self.tally.hot += 1,
            Source::Cold => self.tally.cold += 1,
        }
        self.enter(&item);
        self.lines.push(item);
        true
    }

    /// Someone reads rows to hand them in: what is settled meanwhile stays known until that is over.
    pub(crate) fn poll_begins(&mut self) {
        self.known.read_began();
    }

    pub(crate) fn poll_over(&mut self) {
        self.known.read_merged();
    }

    pub(crate) fn hint(&mut self) {
        self.wake = true;
    }

    /// The store hints at new rows, which may be our own: after a read that found nothing new, the next waits a little.
    pub(crate) fn hint_elsewhere(&mut self, now: Instant) {
        const BETWEEN_FRUITLESS_READS: Duration = Duration::from_millis(10);
        match self.fruitless.map(|at| at + BETWEEN_FRUITLESS_READS) {
            Some(at) if at > now => self.wake_at = Some(at),
            _ => self.wake = true,
        }
    }

    /// A delayed event was written, to be promoted after this long.
    pub(crate) fn hint_due(&mut self, at: Instant) {
        self.due_moved |= self.dues.add(at);
    }

    /// What a promotion did and what it left.
    pub(crate) fn promoted(&mut self, promoted: &Promoted, now: Instant) {
        let stuck = promoted.moved == 0 && promoted.next_due == Some(Duration::ZERO);
        if stuck {
            // Others have locked what is due: tried again at once, it would keep the reader from everything else.
            self.hint_due(now + self.settings.poll_interval);
        }
        let next = promoted.next_due.filter(|_| !stuck);
        for ahead in [next, promoted.later].into_iter().flatten() {
            self.hint_due(now + ahead);
        }
        self.wake = true;
    }

    /// A promotion failed: what it would have moved is still due.
    pub(crate) fn promotion_failed(&mut self, now: Instant) {
        self.hint_due(now + self.settings.poll_interval);
        self.wake = true;
    }

    /// What to read next; at most one read is under way at a time.
    pub(crate) fn next_read(&mut self, now: Instant) -> Read {
        let may_read = self.phase == Phase::Running && self.lease_until.is_some_and(|until| now < until);
        let (rows, bytes) = self.cold_room();
        self.reader_idle = false;
        self.reader_barred = !may_read;
        if !may_read {
            return Read::Idle(None);
        }
        if self.lead.is_some() {
            return self.next_lead(now);
        }
        if let Some(fetch) = self.next_sweep(now) {
            return Read::Sweep(fetch);
        }
        if let Some(until) = self.hold_reads(now) {
            self.reader_idle = true;
            return Read::Idle([until, self.sweep.at()].into_iter().flatten().min());
        }
        if rows < self.read_at_room() {
            self.reader_idle = true;
            return Read::Idle(self.sweep.at());
        }
        self.groups.wake(now);
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.wake = true;
        }
        // A probe should be another event than those under which the endpoint failed: these come when nothing else is left.
        let others_first = self.breaker.is_open() && self.wants_slots();
        if !others_first && let Some(read) = self.next_held_back(now, rows, bytes) {
            return read;
        }
        if self.wants_slots() {
            self.wake = false;
            self.read_begins();
            let (rows, bytes) = self.reach(rows.min(self.page), bytes, self.cursor.decided);
            let scope = Scope::Slots { slots: self.slots.active_set(), cursor: self.cursor.clone() };
            let bytes = self.byte_limits(bytes);
            let fetch = Fetch { scope, rows, bytes, skip_recent: self.settings.skip_recent, now: None };
            return Read::Slots { fetch, rewinds: self.rewinds };
        }
        let waking = self.groups.next_waking();
        self.reader_idle = true;
        let times = [waking, self.dues.next(), self.wake_at, self.sweep.at(), self.aside.next()];
        Read::Idle(times.into_iter().flatten().min())
    }

    /// A read for what was put off or set aside, if its time has come.
    fn next_held_back(&mut self, now: Instant, rows: usize, bytes: usize) -> Option<Read> {
        self.wake_aside(now);
        if let Some(lane) = self.lane
            && self.dues.begin(now)
        {
            return Some(Read::Promote { lane, rows: rows.min(self.page) });
        }
        let key = self.groups.next_to_read()?;
        Some(self.read_group(key, rows, bytes))
    }

    /// Whether reading waits for the endpoint, and until when at most: while it is taken to be down, only what serves as a
    /// probe is read, when its time has come.
    pub(super) fn hold_reads(&mut self, now: Instant) -> Option<Option<Instant>> {
        let held = match self.breaker.outlook(now) {
            Outlook::Paused(until) => Some(until),
            Outlook::Probe if self.out > 0 || self.runnable() => Some(None),
            Outlook::Probe | Outlook::Sending => None,
        };
        self.reads_held = held.is_some();
        held
    }

    fn read_group(&mut self, key: GroupKey, rows: usize, bytes: usize) -> Read {
        let (slot, missed) = match self.groups.get(&key) {
            Some(group) => (group.slot, group.missed.unwrap_or_default()),
            None => return Read::Idle(Some(Instant::now())),
        };
        self.read_begins();
        // A lower number may have been committed since; up to `decided` nothing can have been.
        let from = missed.min(Seq(self.cursor.decided.0 + 1));
        let (rows, bytes) = self.reach(rows.min(self.settings.group_rows()), bytes, Seq(from.0 - 1));
        let scope = Scope::Group { slot, group: key.clone(), from };
        let bytes = self.byte_limits(bytes);
        Read::Group { key, fetch: Fetch { scope, rows, bytes, skip_recent: Duration::ZERO, now: None } }
    }

    /// The limits of a read of this many bytes.
    pub(super) fn byte_limits(&self, total: usize) -> ByteLimits {
        ByteLimits { total, row: self.settings.row_bytes }
    }

    /// How far a read must reach to find something new: rows that are known come again while a transaction that was
    /// begun before them is open, and so do those of groups that are held back.
    fn reach(&self, rows: usize, bytes: usize, after: Seq) -> (usize, usize) {
        let rows = rows.saturating_mul(self.stretch) + self.known.above(after) + self.aside.above(after);
        let bytes_max = bytes.max(self.settings.buffer_bytes);
        (rows, bytes.saturating_mul(self.stretch).min(bytes_max))
    }

    /// Widens the next read if this one was cut short and saw nothing new; false once it is as wide as it may be:
    /// what lies beyond then waits until the open transaction ends.
    fn stretch_on(&mut self, cut: bool, fruitful: bool) -> bool {
        const WIDEST: usize = 64;
        let again = cut && !fruitful;
        self.stretch = if again { (self.stretch * 4).min(WIDEST) } else { 1 };
        self.stretch < WIDEST
    }

    /// A read of slots came back.
    pub(crate) fn merge_slots(
        &mut self,
        fetched: Fetched,
        rewinds: u64,
        incarnation: u64,
        asked: Instant,
        now: Instant,
    ) {
        if incarnation != self.incarnation {
            self.read_over();
            return;
        }
        let mut cursor = fetched.cursor;
        if rewinds == self.rewinds && cursor.decided < self.cursor.decided {
            // The store starts anew: numbers may have gone back.
            self.slots.suspect_any_number();
        }
        let mut cut = fetched.more;
        let mut last = None;
        let (cold, ended) = (self.tally.cold, self.settles.len());
        for row in fetched.rows {
            if self.cold_room().0 == 0 || rewinds < self.reads_from || self.hold_reads(now).is_some() {
                // Not beyond what the store vouches for: a number below the last row may still commit.
                cursor.decided = last.unwrap_or(self.cursor.decided).min(cursor.decided);
                cut = true;
                break;
            }
            last = Some(row.seq);
            self.take_row(row, fetched.now, (asked, now), Lookup::Slots);
        }
        self.read_over();
        self.fruitless = (self.tally.cold == cold).then_some(now);
        // A cursor that was set back meanwhile stays back.
        if rewinds == self.rewinds {
            let fruitful =
                self.tally.cold > cold || self.settles.len() > ended || cursor.decided > self.cursor.decided;
            self.cursor = cursor;
            self.aside.read_upto(self.cursor.decided);
            self.slots.read_upto(self.cursor.decided);
            self.more = cut && self.stretch_on(cut, fruitful);
            if cut && !self.more {
                self.wake_at = Some(now + self.settings.poll_interval);
            }
            self.page =
                if cut { (self.page * 2).min(self.settings.cold_rows) } else { self.settings.fetch_rows };
            if !cut {
                self.slots.trust();
            }
            self.look_again_soon(fruitful, now);
        } else {
            self.wake = true;
        }
    }

    /// A read of one group came back.
    pub(crate) fn merge_group(
        &mut self,
        key: &GroupKey,
        fetched: Fetched,
        incarnation: u64,
        asked: Instant,
        now: Instant,
    ) {
        if incarnation != self.incarnation {
            self.read_over();
            return;
        }
        let Some(group) = self.groups.get_mut(key) else {
            // It left memory meanwhile, with its slot or because it is held: what was read of it may be the past.
            self.read_over();
            return;
        };
        group.missed = None;
        group.careful &= !fetched.rows.is_empty();
        let last = fetched.rows.last().map(|row| row.seq);
        let mut rest = last.filter(|_| fetched.more).map(|last| Seq(last.0 + 1));
        let (cold, ended) = (self.tally.cold, self.settles.len());
        for row in fetched.rows {
            if self.cold_room().0 == 0 || self.hold_reads(now).is_some() {
                rest = Some(row.seq);
                break;
            }
            self.take_row(row, fetched.now, (asked, now), Lookup::Group);
        }
        self.read_over();
        let fruitful = self.tally.cold > cold || self.settles.len() > ended;
        let soon = self.stretch_on(rest.is_some(), fruitful);
        if let (Some(group), Some(rest)) = (self.groups.get_mut(key), rest) {
            group.miss(rest);
            if !soon {
                group.until = Some(now + self.settings.poll_interval);
            }
        }
        self.groups.place(key, now);
    }

    pub(super) fn read_begins(&mut self) {
        self.dues.read_began();
        self.known.read_began();
        self.slots.read_began();
    }

    pub(super) fn read_over(&mut self) {
        self.known.read_merged();
        self.read_moved();
    }

    /// Rows that were settled, moved and seen, all before their settle was confirmed, are read again.
    pub(super) fn read_moved(&mut self) {
        if let Some(seq) = self.known.take_again() {
            self.rewind(seq);
            self.wake = true;
        }
    }

    /// A read failed: what it would have seen is still there.
    pub(crate) fn read_failed(&mut self, group: Option<&GroupKey>, now: Instant) {
        self.read_over();
        self.wake = true;
        if let Some(key) = group {
            self.groups.place(key, now);
        }
    }

    /// The database's now lies between the two moments: what is due waits from the later, what expires from the earlier.
    fn take_row(&mut self, row: Row, db_now: Timestamp, (asked, now): (Instant, Instant), lookup: Lookup) {
        if self.aside.waits(&row.id) || !self.slots.takes_rows(row.slot) {
            return;
        }
        if !self.known.admit(&row.id, row.seq) {
            return self.aside.put_off(&row.id, now);
        }
        let from_birth = row.status == Status::New && row.available_at <= row.created_at;
        let due = if from_birth { now } else { Self::local(row.available_at, db_now, now) };
        let ordered = self.settings.order == Order::PerGroup && !row.slot.is_lane();
        let group = row.group.clone().filter(|_| ordered);
        let event = match row.event {
            Ok(event) => event,
            Err(why) => return self.bury(&row.id, row.seq, row.slot, why.error(), now),
        };
        if row.expires_at.is_some_and(|at| at <= db_now) {
            self.slots.entered(row.slot);
            return self.end(
                &row.id,
                row.seq,
                Change::Dead { error: EXPIRED.to_owned(), counts: Counts::None, blocks: None },
                row.slot,
                now,
            );
        }
        let put_off = row.status == Status::New && due > now + MOMENT;
        if due > now && (put_off || group.is_none()) {
            self.slots.entered(row.slot);
            self.hint_due(due);
            return self.end(&row.id, row.seq, Change::Delay, row.slot, now);
        }
        let mut item = self.item(event, row.seq, row.slot, Source::Cold);
        item.attempts = row.attempts;
        // Its last attempt was written and it came back untried: that one is still due to it.
        item.counted = row.attempts >= self.settings.max_attempts;
        item.expires = row.expires_at.map(|at| Self::local(at, db_now, asked));
        let suspect = lookup == Lookup::Slots && self.slots.suspects(row.slot, group.as_ref(), row.seq);
        match group {
            Some(key) => {
                item.group = Some(key.clone());
                self.take_grouped(key, item, due.max(now), suspect, now);
            }
            None => {
                item.careful = suspect;
                self.recall(&mut item);
                self.tally.cold += 1;
                self.enter(&item);
                self.lines.push(item);
            }
        }
    }

    /// What is remembered of an event that was in memory before.
    pub(super) fn recall(&mut self, item: &mut Item) {
        if let Some(memo) = self.aside.take(item.id()) {
            memo.apply(item);
        }
    }

    fn take_grouped(&mut self, key: GroupKey, mut item: Item, due: Instant, suspect: bool, now: Instant) {
        if self.held.contains(&key) {
            if suspect {
                self.held.distrust(key, item.slot);
            }
            return self.known.forget(item.id());
        }
        let room = self.settings.group_rows();
        let group = self.groups.entry(&key, item.slot);
        group.careful |= suspect;
        let takes = group.takes_rows(room) && due <= now;
        if !takes {
            group.miss(item.seq);
            if due > now {
                group.until = Some(group.until.map_or(due, |until| until.max(due)));
            }
            self.known.forget(item.id());
            self.groups.place(&key, now);
            return;
        }
        self.recall(&mut item);
        self.tally.cold += 1;
        self.enter(&item);
        self.groups.entry(&key, item.slot).insert(item);
        self.groups.place(&key, now);
    }

    fn bury(&mut self, id: &EventId, seq: Seq, slot: Slot, error: String, now: Instant) {
        self.tally.undecodable.push((id.clone(), error.clone()));
        self.slots.entered(slot);
        self.end(id, seq, Change::Dead { error, counts: Counts::None, blocks: None }, slot, now);
    }

    /// An outcome for a row that never became an item.
    fn end(&mut self, id: &EventId, seq: Seq, change: Change, slot: Slot, now: Instant) {
        if let Change::Dead { error, .. } = &change {
            self.tally.dead.push((id.clone(), error.clone()));
        }
        let outcome = Outcome { seq, id: id.clone(), token: Token::default(), change };
        self.push_unsettled(Unsettled { outcome, slot, group: None }, now);
    }
}

/// The reason in a row that outlived its time.
pub(super) const EXPIRED: &str = "expired before it was delivered";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    Slots,
    Group,
}
