//! Messages that wait for a process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::WorkerVerdict;

/// Whether a process may have other messages beside this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    WithOthers,
    /// A process ended while it had this message and others. Alone, it shows whether it was the cause.
    Alone,
}

/// What became of a message that was passed to a process.
#[derive(Debug)]
pub(super) enum ProcessAnswer {
    Verdict(WorkerVerdict),
    /// The process failed while it had only this message.
    Blamed(String),
    /// The process failed while it had this message and others.
    Suspected,
    /// The process ended without an error before it answered.
    Unanswered(ProcessHad),
    /// The command can't be started.
    NotStarted(String),
}

/// What a process had been given when it ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessHad {
    /// No other message since its start.
    OnlyThis,
    /// Other messages, which it may have ended after on purpose.
    Others,
}

/// A message on its way to a process.
#[derive(Debug)]
pub(super) struct MessageJob {
    pub(super) item: String,
    /// The message as a line, with its line break.
    pub(super) line: Arc<str>,
    pub(super) sharing: Sharing,
    pub(super) reply: oneshot::Sender<ProcessAnswer>,
}

#[derive(Debug, Default)]
struct WaitingJobs {
    alone: VecDeque<MessageJob>,
    others: VecDeque<MessageJob>,
}

/// The messages that wait for a process. There are at most as many as handlers run at once.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    waiting: Mutex<WaitingJobs>,
    /// Notified when a message was added, or when more messages wait than one process took.
    pub(super) added: Notify,
}

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, WaitingJobs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: MessageJob) {
        let mut waiting = self.lock();
        match job.sharing {
            Sharing::WithOthers => waiting.others.push_back(job),
            Sharing::Alone => waiting.alone.push_back(job),
        }
        drop(waiting);
        self.added.notify_one();
    }

    /// Takes the next message for a process that has this many. While messages wait to be sent alone, a
    /// process takes nothing until it has none, so that these do not wait for the end of a backlog.
    pub(super) fn take(&self, has: usize) -> Option<MessageJob> {
        let mut waiting = self.lock();
        // The handler of a message may be gone: its deadline has passed, or its claim was lost.
        waiting.alone.retain(|job| !job.reply.is_closed());
        let job = if waiting.alone.is_empty() {
            loop {
                match waiting.others.pop_front() {
                    Some(job) if job.reply.is_closed() => {}
                    job => break job,
                }
            }
        } else if has == 0 {
            waiting.alone.pop_front()
        } else {
            None
        };
        let more = !waiting.alone.is_empty() || !waiting.others.is_empty();
        drop(waiting);
        if more && job.is_some() {
            self.added.notify_one();
        }
        job
    }
}
