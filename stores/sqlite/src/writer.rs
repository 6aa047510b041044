//! The writer: one thread with one connection, which commits many jobs in one transaction (group commit).

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

/// How many jobs may queue; further callers wait.
const QUEUE: usize = 1_024;
/// The most jobs in one commit.
const GROUP_JOBS: usize = 256;

/// After this long without a pause, the writer pauses for [`GAP`]. Other processes poll for the write lock
/// every millisecond instead of queueing for it, so a writer without pauses would starve them.
const BUSY_FOR: Duration = Duration::from_millis(100);
/// Longer than the millisecond at which other processes poll for the lock.
const GAP: Duration = Duration::from_micros(1_200);

/// The handle of the writer thread. When the last handle is dropped, the thread ends after its last job.
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

    /// Queues a job, and waits while the queue is full. False if the thread has ended.
    pub(crate) async fn send(&self, job: Box<dyn Job>) -> bool {
        self.0.send(job).await.is_ok()
    }
}

struct Group {
    tx: SqliteTransaction,
    jobs: mpsc::Receiver<Box<dyn Job>>,
    /// Jobs that were taken from the queue and have not run.
    next: VecDeque<Box<dyn Job>>,
    /// The durability level of the store's settings.
    synchronous: Synchronous,
    /// The durability level that is set on the connection now.
    level: Synchronous,
    /// A group that is older than this accepts no further job.
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

    /// Runs the queued jobs in one transaction, and jobs that arrive meanwhile.
    fn commit_group(&mut self) {
        let relaxed = self.next.iter().all(|job| job.durability() == Durability::Relaxed);
        if let Err(error) = self.begin(relaxed) {
            let end = End::Refused(reason(&error));
            self.next.drain(..).for_each(|job| job.end(&end));
            return;
        }
        self.tx.fit();
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

    /// Takes a job that has arrived meanwhile. False if there is none, or if it needs more durability than
    /// this group has; it then starts the next group.
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
        // A savepoint fails only if memory or the transaction is gone, and then later statements fail too.
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
        // After a failed write or flush of the WAL it is unknown whether a reader will find the commit there.
        let lost = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        if lost || (!open && !matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull))) {
            return End::Unknown(reason);
        }
        End::Refused(reason)
    }

    fn roll_back(&self) {
        if !self.tx.is_autocommit() {
            // ROLLBACK fails only if SQLite has already rolled back.
            let _ = self.tx.prepare_cached("ROLLBACK").and_then(|mut rollback| rollback.execute([]));
        }
    }

    /// The result when a job has ended the transaction: through an error that makes SQLite
    /// roll back, or deliberately.
    fn ended_early(&self) -> End {
        let detail = "a job of the same group commit ended the transaction".to_owned();
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
