//! The writer: one thread, one connection, many jobs to a commit.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use pillarbox::port::ErrorKind;
use rusqlite::ErrorCode;
use tokio::sync::mpsc;

use crate::config::Synchronous;
use crate::connection::be_patient;
use crate::error::describe;
use crate::job::{Durability, End, Job, Ran, Reason};
use crate::transaction::SqliteTransaction;

/// Jobs that may wait; more wait with their callers.
const QUEUE: usize = 1_024;
/// Most jobs to a commit.
const GROUP_JOBS: usize = 256;

/// A writer that never rests shuts other processes out, whose waits are no queue: they look again every millisecond.
const BUSY_FOR: Duration = Duration::from_millis(100);
const GAP: Duration = Duration::from_micros(1_200);

/// The handle: when the last one is dropped, the thread ends after its last job.
#[derive(Clone)]
pub(crate) struct Writer(mpsc::Sender<Box<dyn Job>>);

impl Writer {
    pub(crate) fn start(
        tx: SqliteTransaction,
        synchronous: Synchronous,
        group_time: Duration,
        busy_timeout: Duration,
    ) -> io::Result<Self> {
        let (sender, jobs) = mpsc::channel(QUEUE);
        let group = Group { tx, jobs, next: VecDeque::new(), synchronous, level: synchronous, group_time };
        thread::Builder::new().name("pillarbox-writer".to_owned()).spawn(move || {
            be_patient(busy_timeout);
            group.serve();
        })?;
        Ok(Self(sender))
    }

    /// Hands a job over, waiting for room; false if the thread has ended.
    pub(crate) async fn send(&self, job: Box<dyn Job>) -> bool {
        self.0.send(job).await.is_ok()
    }
}

struct Group {
    tx: SqliteTransaction,
    jobs: mpsc::Receiver<Box<dyn Job>>,
    /// Taken from the queue, not yet run.
    next: VecDeque<Box<dyn Job>>,
    /// As the store is set.
    synchronous: Synchronous,
    /// As the connection is now.
    level: Synchronous,
    /// No job is added to a group that is older.
    group_time: Duration,
}

impl Group {
    fn serve(mut self) {
        let mut busy_since = Instant::now();
        loop {
            self.take_waiting();
            if self.next.is_empty() {
                let Some(job) = self.jobs.blocking_recv() else { return };
                self.next.push_back(job);
                self.take_waiting();
                busy_since = Instant::now();
            } else if busy_since.elapsed() > BUSY_FOR {
                thread::sleep(GAP);
                busy_since = Instant::now();
            }
            self.commit_group();
        }
    }

    fn take_waiting(&mut self) {
        while self.next.len() < GROUP_JOBS {
            let Ok(job) = self.jobs.try_recv() else { return };
            self.next.push_back(job);
        }
    }

    /// One transaction with as many jobs as are there.
    fn commit_group(&mut self) {
        let relaxed = self.next.iter().all(|job| job.durability() == Durability::Relaxed);
        if let Err(error) = self.begin(relaxed) {
            let end = End::Refused(reason(&error));
            self.next.drain(..).for_each(|job| job.end(&end));
            return;
        }
        let started = Instant::now();
        let mut kept: Vec<Box<dyn Job>> = Vec::new();
        while let Some(mut job) = self.next.pop_front() {
            // The first job needs no savepoint: if it fails, there is nothing else to keep.
            let ran = if kept.is_empty() { job.run(&self.tx) } else { self.run_apart(&mut job) };
            if self.tx.is_autocommit() {
                kept.push(job);
                return end_all(kept, &self.ended_early());
            }
            match ran {
                Ran::Keep => kept.push(job),
                Ran::Undo => {
                    let undone = End::Refused(rolled_back());
                    if kept.is_empty() {
                        self.roll_back();
                        return job.end(&undone);
                    }
                    job.end(&undone);
                }
            }
            if kept.len() >= GROUP_JOBS || started.elapsed() > self.group_time {
                break;
            }
            if self.next.is_empty() && !self.take_one_more(relaxed) {
                break;
            }
        }
        let end = self.commit();
        end_all(kept, &end);
    }

    /// A job that came meanwhile. One that must last does not join a group that need not.
    fn take_one_more(&mut self, relaxed: bool) -> bool {
        let Ok(job) = self.jobs.try_recv() else { return false };
        let fits = !relaxed || job.durability() == Durability::Relaxed;
        self.next.push_back(job);
        fits
    }

    fn begin(&mut self, relaxed: bool) -> Result<(), rusqlite::Error> {
        let level = if relaxed { Synchronous::Normal } else { self.synchronous };
        if level != self.level {
            self.tx.pragma_update(None, "synchronous", level.as_str())?;
            self.level = level;
        }
        self.tx.expect_no_commit();
        self.tx.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    fn run_apart(&self, job: &mut Box<dyn Job>) -> Ran {
        // These fail only if memory or the transaction is gone, and then so does what follows.
        let step = |statement| self.tx.prepare_cached(statement).and_then(|mut s| s.execute([]));
        if step("SAVEPOINT pillarbox_job").is_err() {
            return Ran::Undo;
        }
        let ran = job.run(&self.tx);
        if self.tx.is_autocommit() {
            return ran;
        }
        if ran == Ran::Undo && step("ROLLBACK TO pillarbox_job").is_err() {
            self.roll_back();
            return ran;
        }
        if step("RELEASE pillarbox_job").is_err() {
            self.roll_back();
        }
        ran
    }

    fn commit(&self) -> End {
        let committed = self.tx.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([]));
        let Err(error) = committed else { return End::Committed };
        let reason = reason(&error);
        let open = !self.tx.is_autocommit();
        self.roll_back();
        // Where the log could not be written or flushed, what a reader finds there later is anyone's guess.
        let lost = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        if lost || (!open && !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull))) {
            return End::Unknown(reason);
        }
        End::Refused(reason)
    }

    fn roll_back(&self) {
        if !self.tx.is_autocommit() {
            // It fails only where SQLite has rolled back by itself.
            let _ = self.tx.prepare_cached("ROLLBACK").and_then(|mut rollback| rollback.execute([]));
        }
    }

    /// A job ended the transaction: by an error that SQLite answers with a rollback, or on purpose.
    fn ended_early(&self) -> End {
        let detail = "the transaction was ended by one of its group".to_owned();
        let reason = Reason { kind: ErrorKind::Conflict, detail };
        if self.tx.saw_commit() { End::Unknown(reason) } else { End::Refused(reason) }
    }
}

fn end_all(jobs: Vec<Box<dyn Job>>, end: &End) {
    for job in jobs {
        job.end(end);
    }
}

fn reason(error: &rusqlite::Error) -> Reason {
    let (kind, detail) = describe(error);
    Reason { kind, detail }
}

fn rolled_back() -> Reason {
    Reason { kind: ErrorKind::Unexpected, detail: "rolled back".to_owned() }
}
