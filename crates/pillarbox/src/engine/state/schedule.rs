//! The read schedule: why and when the source is asked for rows again.

use std::time::Duration;

use tokio::time::Instant;

use super::due::Dues;
use crate::model::Seq;

/// After a read that found nothing new, a wake-up from elsewhere is followed up no sooner than this: it may be our own.
const BETWEEN_EMPTY_READS: Duration = Duration::from_millis(10);

/// What the reader is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reader {
    /// Reading, or about to ask what to read.
    #[default]
    Busy,
    /// Waiting until there is something to read.
    Idle,
    /// Waiting for a lease, and for nothing else.
    WithoutLease,
}

/// From where rows are to be read again that left memory and are still pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reread {
    From(Seq),
    /// Rows may be anywhere: read as if for the first time.
    All,
}

/// When rows are read, and what a read that is under way may still bring.
#[derive(Debug)]
pub(crate) struct ReadSchedule {
    /// Something hints at rows to be read.
    pub(crate) wake: bool,
    /// A hint that is followed up later.
    pub(crate) wake_at: Option<Instant>,
    /// The last read was cut short.
    pub(crate) more: bool,
    /// Rows of the next page: doubles while reads are cut short.
    pub(crate) page: usize,
    /// Reading waits for the endpoint.
    pub(crate) held: bool,
    pub(crate) dues: Dues,
    pub(crate) reader: Reader,
    /// Rows stay pending in the store while they are in memory.
    pub(crate) rereads: bool,
    reread: Option<Reread>,
    /// Grows with each `reread`, so that a read under way can't move the source past it.
    version: u64,
    /// Reads that began before this version bring nothing in: earlier rows of what they show left memory since.
    discard_before: u64,
    /// When a read last found nothing new.
    empty_at: Option<Instant>,
    /// How long the next poll waits although nothing hints at rows; none: for the poll interval.
    poll_backoff: Option<Duration>,
    /// A delayed row is due earlier than the reader knows.
    due_moved: bool,
    /// When a heartbeat last told that nothing is pending.
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

    /// Rows from this number on left memory and are still pending.
    pub(crate) fn reread_from(&mut self, seq: Seq) {
        self.version += 1;
        self.reread = Some(match self.reread {
            None => Reread::From(seq),
            Some(Reread::From(from)) => Reread::From(from.min(seq)),
            Some(Reread::All) => Reread::All,
        });
    }

    /// Rows may be anywhere.
    pub(crate) fn reread_all(&mut self) {
        self.version += 1;
        self.reread = Some(Reread::All);
        self.wake = true;
    }

    /// What a read under way shows may come behind rows that left memory: it brings nothing in.
    pub(crate) fn discard_reads(&mut self) {
        self.discard_before = self.version;
    }

    /// From where the source has to read again.
    pub(crate) fn take_reread(&mut self) -> Option<Reread> {
        self.reread.take()
    }

    /// The version that a read begins with.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether a read that began with this version brings nothing in.
    pub(crate) fn discards(&self, version: u64) -> bool {
        version < self.discard_before
    }

    /// A page was read; the next is larger while there are more.
    pub(crate) fn turn_page(&mut self, cut: bool, first: usize, largest: usize) {
        self.page = if cut { (self.page * 2).min(largest) } else { first };
    }

    /// A read came back.
    pub(crate) fn found(&mut self, anything: bool, now: Instant) {
        self.empty_at = (!anything).then_some(now);
    }

    /// The store hints at new rows, which may be our own: after a read that found nothing new, the next waits a little.
    pub(crate) fn hint_elsewhere(&mut self, now: Instant) {
        match self.empty_at.map(|at| at + BETWEEN_EMPTY_READS) {
            Some(at) if at > now => self.wake_at = Some(at),
            _ => self.wake = true,
        }
    }

    /// A delayed row is due then.
    pub(crate) fn hint_due(&mut self, at: Instant) {
        self.due_moved |= self.dues.add(at);
    }

    /// Something is to be read sooner than the reader knows.
    pub(crate) fn moved(&mut self, sooner: bool) {
        self.due_moved |= sooner;
    }

    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.due_moved)
    }

    /// A hint whose time has come counts.
    pub(crate) fn follow_up(&mut self, now: Instant) {
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.wake = true;
        }
    }

    /// After rows were found the next poll comes after `first`; the longer nothing is found, the later.
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

    /// A heartbeat told whether rows are pending.
    pub(crate) fn heard(&mut self, ready: bool, asked: Instant) {
        self.wake |= ready;
        self.nothing_at = (!ready).then_some(asked);
    }

    /// Nobody knows whether rows are pending.
    pub(crate) fn heard_nothing(&mut self) {
        self.nothing_at = None;
        self.wake = true;
    }

    /// The poll interval is over: reads, unless a heartbeat has just told that nothing is there.
    pub(crate) fn poll_tick(&mut self, interval: Duration, now: Instant) {
        let told = self.nothing_at.is_some_and(|at| now.saturating_duration_since(at) < interval);
        self.wake |= !told;
    }

    /// The node was lost: whatever it had read counts for nothing.
    pub(crate) fn restart(&mut self) {
        self.reread_all();
        self.more = false;
    }
}
