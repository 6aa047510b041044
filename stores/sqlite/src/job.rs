//! Jobs of the writer: the work inside its transaction, and how each caller gets its own result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pillarbox::port::{Body, CommitError, ErrorKind, StoreError, TransactError};
use tokio::sync::oneshot;

use crate::error::DriverError;
use crate::transaction::SqliteTransaction;

/// Whether a commit must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As durable as the store's settings say.
    Full,
    /// May be lost, because the work is then simply repeated.
    Relaxed,
}

/// Whether a job's changes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    Keep,
    Undo,
}

/// The reason a transaction did not commit.
#[derive(Debug, Clone)]
pub(crate) struct Reason {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
}

/// How the transaction ended in which a job ran.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Committed,
    /// Rolled back, wholly or only this job's part.
    Refused(Reason),
    /// It is unknown whether the transaction was committed.
    Unknown(Reason),
}

/// Work for a transaction of the writer. `end` follows `run` exactly once; a job that is dropped without
/// `end` has failed.
pub(crate) trait Job: Send {
    fn durability(&self) -> Durability;
    fn run(&mut self, tx: &SqliteTransaction) -> Ran;
    fn end(self: Box<Self>, end: &End);
}

/// A call of the store port.
pub(crate) struct Call<T, F> {
    pub(crate) store: Arc<str>,
    pub(crate) operation: &'static str,
    pub(crate) durability: Durability,
    pub(crate) work: Option<F>,
    pub(crate) result: Option<Result<T, DriverError>>,
    pub(crate) reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&SqliteTransaction) -> Result<T, DriverError> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn run(&mut self, tx: &SqliteTransaction) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Undo };
        let result = catch_unwind(AssertUnwindSafe(|| work(tx))).unwrap_or_else(|_| {
            Err(DriverError::Refused(ErrorKind::Unexpected, "the store panicked".to_owned()))
        });
        let ran = if result.is_ok() { Ran::Keep } else { Ran::Undo };
        self.result = Some(result);
        ran
    }

    fn end(self: Box<Self>, end: &End) {
        let (store, operation) = (self.store, self.operation);
        let told = |reason: &Reason| StoreError::new(reason.kind, operation, &store, reason.detail.clone());
        let answer = match (self.result, end) {
            (Some(Err(failure)), _) => Err(failure.into_store_error(operation, &store)),
            (Some(Ok(value)), End::Committed) => Ok(value),
            (_, End::Refused(reason) | End::Unknown(reason)) => Err(told(reason)),
            (None, End::Committed) => return,
        };
        // The send fails if the caller has stopped waiting.
        let _ = self.reply.send(answer);
    }
}

/// A user's transaction.
pub(crate) struct Transaction<B: Body<SqliteTransaction>> {
    pub(crate) store: Arc<str>,
    pub(crate) body: B,
    pub(crate) result: Option<Result<B::Output, TransactError<B::Error>>>,
    pub(crate) reply: Option<oneshot::Sender<Answered<B>>>,
}

/// The result for the caller of a transaction.
pub(crate) type Answered<B> =
    Result<<B as Body<SqliteTransaction>>::Output, TransactError<<B as Body<SqliteTransaction>>::Error>>;

impl<B: Body<SqliteTransaction>> Job for Transaction<B> {
    fn durability(&self) -> Durability {
        Durability::Full
    }

    fn run(&mut self, tx: &SqliteTransaction) -> Ran {
        let result = catch_unwind(AssertUnwindSafe(|| tx.guarded(|tx| self.body.run(tx))))
            .unwrap_or(Err(TransactError::Panicked));
        let ran = if result.is_ok() { Ran::Keep } else { Ran::Undo };
        self.result = Some(result);
        ran
    }

    fn end(mut self: Box<Self>, end: &End) {
        let told =
            |reason: &Reason| StoreError::new(reason.kind, "transaction", &self.store, reason.detail.clone());
        let answer = match (self.result.take(), end) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(output)), End::Committed) => Ok(output),
            (_, End::Refused(reason)) => Err(TransactError::Commit(CommitError::Refused(told(reason)))),
            (_, End::Unknown(reason)) => Err(TransactError::Commit(CommitError::Unknown(told(reason)))),
            (None, End::Committed) => return,
        };
        let callback = match &answer {
            Ok(_) => B::committed,
            Err(TransactError::Commit(CommitError::Unknown(_))) => B::unknown,
            Err(_) => B::failed,
        };
        let Some(reply) = self.reply.take() else { return };
        self.call_back(callback);
        let _ = reply.send(answer);
    }
}

impl<B: Body<SqliteTransaction>> Transaction<B> {
    /// Calls back after the end of the transaction. A panic in the callback does not change
    /// the result for the caller.
    fn call_back(&mut self, callback: fn(&mut B)) {
        let body = &mut self.body;
        if catch_unwind(AssertUnwindSafe(|| callback(body))).is_err() {
            tracing::warn!(store = &*self.store, "a callback panicked after its transaction had ended");
        }
    }
}

impl<B: Body<SqliteTransaction>> Drop for Transaction<B> {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.call_back(B::failed);
        }
    }
}
