//! The read schedule: when to read next, and from where.

use std::time::Duration;

use tokio::time::Instant;

use super::due::Dues;
use crate::model::Seq;

/// Minimum time between an empty read and a read that follows a wake-up of the store, which
/// may stem from this process.
const BETWEEN_EMPTY_READS: Duration = Duration::from_millis(10);

/// The state of the reader task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reader {
    /// Reading, or about to request the next read.
    #[default]
    Busy,
    /// Waiting for a signal to read.
    Idle,
    /// Waiting for a lease; other signals do not wake it.
    WithoutLease,
}

/// The position from which to read again, because pending rows have left memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reread {
    From(Seq),
    /// Rows may have any number: read as if for the first time.
    All,
}

/// When rows are read, and which rows of a read in progress may still be admitted.
#[derive(Debug)]
pub(crate) struct ReadSchedule {
    /// Whether rows may be pending that are not in memory.
    pub(crate) wake: bool,
    /// Time at which `wake` becomes true.
    pub(crate) wake_at: Option<Instant>,
    /// Whether the last read was cut short, so that more rows are pending.
    pub(crate) more: bool,
    /// Number of rows in the next page; doubles while reads are cut short.
    pub(crate) page: usize,
    /// Whether reading waits for the endpoint.
    pub(crate) held: bool,
    pub(crate) dues: Dues,
    pub(crate) reader: Reader,
    /// Whether rows stay pending in the store while they are in memory.
    pub(crate) rereads: bool,
    reread: Option<Reread>,
    /// Increases with each reread request. A read that began with an older version must not move the cursor.
    version: u64,
    /// Rows of reads that began before this version are discarded: rows that come before
    /// them have left memory since.
    discard_before: u64,
    /// Time of the last read, if it found nothing new.
    empty_at: Option<Instant>,
    /// Pause before the next poll; `None` means the poll interval.
    poll_backoff: Option<Duration>,
    /// Whether something must be read earlier than the time for which the reader waits.
    due_moved: bool,
    /// Time of the last heartbeat, if it reported that nothing is pending.
    nothing_at: Option<Instant>,
}

impl ReadSchedule {
    pub(crate) fn new(page: usize) -> Self {
        Self {
            wake: true,
            wake_at: None,
            more: false,
            page,
            held: false,
            dues: Dues::default(),
            reader: Reader::Busy,
            rereads: true,
            reread: None,
            version: 0,
            discard_before: 0,
            empty_at: None,
            poll_backoff: None,
            due_moved: false,
            nothing_at: None,
        }
    }

    /// Requests a reread from this number, because pending rows have left memory.
    pub(crate) fn reread_from(&mut self, seq: Seq) {
        self.version += 1;
        self.reread = Some(match self.reread {
            None => Reread::From(seq),
            Some(Reread::From(from)) => Reread::From(from.min(seq)),
            Some(Reread::All) => Reread::All,
        });
    }

    /// Requests a reread of all rows.
    pub(crate) fn reread_all(&mut self) {
        self.version += 1;
        self.reread = Some(Reread::All);
        self.wake = true;
    }

    /// Discards the rows of a read in progress, because they may come after rows that have left memory.
    pub(crate) fn discard_reads(&mut self) {
        self.discard_before = self.version;
    }

    /// Takes the requested reread position.
    pub(crate) fn take_reread(&mut self) -> Option<Reread> {
        self.reread.take()
    }

    /// Version for a read that begins now.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the rows of a read that began with this version are discarded.
    pub(crate) fn discards(&self, version: u64) -> bool {
        version < self.discard_before
    }

    /// Sets the size of the next page: doubled if the read was cut short, or else that of a first page.
    pub(crate) fn turn_page(&mut self, cut: bool, first: usize, largest: usize) {
        self.page = if cut { (self.page * 2).min(largest) } else { first };
    }

    /// Notes whether a read found anything new.
    pub(crate) fn found(&mut self, anything: bool, now: Instant) {
        self.empty_at = (!anything).then_some(now);
    }

    /// Handles a wake-up of the store. Right after an empty read the next read is delayed, because the
    /// wake-up may stem from this process.
    pub(crate) fn hint_elsewhere(&mut self, now: Instant) {
        match self.empty_at.map(|at| at + BETWEEN_EMPTY_READS) {
            Some(at) if at > now => self.wake_at = Some(at),
            _ => self.wake = true,
        }
    }

    /// Adds the due time of a delayed row.
    pub(crate) fn hint_due(&mut self, at: Instant) {
        self.due_moved |= self.dues.add(at);
    }

    /// Notes that something must be read earlier than the reader expects.
    pub(crate) fn moved(&mut self, sooner: bool) {
        self.due_moved |= sooner;
    }

    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.due_moved)
    }

    /// Turns a delayed wake-up into a wake-up once its time has come.
    pub(crate) fn follow_up(&mut self, now: Instant) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.wake = true;
        }
    }

    /// Schedules the next poll: `first` after a read that found rows, then doubling while polls are empty.
    pub(crate) fn poll_soon(
        &mut self,
        fruitful: bool,
        first: Option<Duration>,
        longest: Duration,
        now: Instant,
    ) {
        let Some(first) = first else {
            return;
        };
        let pause = match self.poll_backoff {
            Some(pause) if !fruitful => pause * 2,
            _ if fruitful => first,
            _ => return,
        };
        self.poll_backoff = (pause < longest).then_some(pause);
        if self.poll_backoff.is_some() {
            self.wake_at = Some(self.wake_at.map_or(now + pause, |at| at.min(now + pause)));
        }
    }

    /// Notes whether a heartbeat reported pending rows.
    pub(crate) fn heard(&mut self, ready: bool, asked: Instant) {
        self.wake |= ready;
        self.nothing_at = (!ready).then_some(asked);
    }

    /// Notes that it is unknown whether rows are pending, and wakes the reader.
    pub(crate) fn heard_nothing(&mut self) {
        self.nothing_at = None;
        self.wake = true;
    }

    /// Wakes the reader at the end of a poll interval, unless a recent heartbeat
    /// reported that nothing is pending.
    pub(crate) fn poll_tick(&mut self, interval: Duration, now: Instant) {
        let told = self.nothing_at.is_some_and(|at| now.saturating_duration_since(at) < interval);
        self.wake |= !told;
    }

    /// Restarts reading from the beginning after the node was lost.
    pub(crate) fn restart(&mut self) {
        self.reread_all();
        self.more = false;
    }
}
