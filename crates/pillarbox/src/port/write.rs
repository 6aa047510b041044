//! The writing ports: events go in on the caller's own transaction, whose type is a parameter.

use std::fmt;
use std::future::Future;

use super::{Answer, Cancel, ErrorKind, JoinChange, JoinChanged, Settle, Settled, StoreError, Table};
use crate::model::{EventId, NewRow, Written};

/// Writes on a transaction of this type, of an asynchronous driver.
pub trait WriteOn<Tx: ?Sized>: Table {
    /// Inserts all rows with one statement where the database can; never commits.
    ///
    /// Without rows it fails exactly if the transaction can no longer commit. There are databases whose drivers report
    /// the commit of a transaction that an earlier error has aborted as a success.
    fn insert<'a>(&'a self, tx: &'a mut Tx, rows: &'a [NewRow]) -> Answer<'a, Vec<Written>>;

    /// Deletes pending events and puts that on record, both as part of the transaction; the ids that were pending.
    fn cancel_on<'a>(&'a self, tx: &'a mut Tx, request: Cancel) -> Answer<'a, Vec<EventId>>;

    /// Settles as part of the transaction, as [`Table::settle`] does.
    fn settle_on<'a>(&'a self, _tx: &'a mut Tx, _request: Settle) -> Answer<'a, Settled> {
        Box::pin(async { Err(no_way(self, "settle")) })
    }

    /// Changes a join as part of the transaction, as [`Joins::change_join`](super::Joins::change_join) does.
    fn change_join_on<'a>(&'a self, _tx: &'a mut Tx, _request: JoinChange) -> Answer<'a, JoinChanged> {
        Box::pin(async { Err(no_way(self, "change a join")) })
    }
}

fn no_way(store: &(impl Table + ?Sized), operation: &'static str) -> StoreError {
    let detail = "this store can't do that on a transaction of this driver";
    StoreError::new(ErrorKind::Unsupported, operation, &store.facts().name, detail)
}

/// Writes on a transaction of this type, of a blocking driver.
pub trait BlockingWriteOn<Tx: ?Sized>: Table {
    /// Inserts all rows; never commits.
    fn insert_blocking(&self, tx: &Tx, rows: &[NewRow]) -> Result<Vec<Written>, StoreError>;

    /// Deletes pending events and puts that on record, both as part of the transaction; the ids that were pending.
    fn cancel_blocking(&self, tx: &Tx, request: &Cancel) -> Result<Vec<EventId>, StoreError>;

    /// Settles as part of the transaction, as [`Table::settle`] does.
    fn settle_blocking(&self, tx: &Tx, request: &Settle) -> Result<Settled, StoreError>;

    /// Changes a join as part of the transaction, as [`Joins::change_join`](super::Joins::change_join) does.
    fn change_join_blocking(&self, tx: &Tx, request: &JoinChange) -> Result<JoinChanged, StoreError>;
}

/// Why a commit did not say yes.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was committed.
    #[error("the transaction was not committed")]
    Refused(#[source] StoreError),
    /// The answer was lost: it may be committed or not. The reader decides.
    #[error("the outcome of the commit is unknown")]
    Unknown(#[source] StoreError),
}

/// Begins and ends transactions of its own.
pub trait Begin: WriteOn<Self::Tx> {
    /// The driver's transaction.
    type Tx: Send + 'static;

    /// Opens a transaction.
    fn begin(&self) -> Answer<'_, Self::Tx>;

    /// Commits it.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Inserts the last rows as [`WriteOn::insert`] does and commits; where the insert fails, nothing is committed.
    ///
    /// `inserted` runs once the rows are in. A store whose driver can send both at once saves a round trip here.
    fn commit_with(
        &self,
        mut tx: Self::Tx,
        rows: &[NewRow],
        inserted: impl FnOnce() + Send,
    ) -> impl Future<Output = Result<Vec<Written>, CommitError>> + Send {
        async move {
            match self.insert(&mut tx, rows).await {
                Ok(written) => {
                    inserted();
                    self.commit(tx).await.map(|()| written)
                }
                Err(refused) => {
                    if let Err(error) = self.rollback(tx).await {
                        tracing::warn!(%error, "rolling back after a failed insert failed");
                    }
                    Err(CommitError::Refused(refused))
                }
            }
        }
    }

    /// Rolls it back.
    fn rollback(&self, tx: Self::Tx) -> Answer<'_, ()>;
}

/// Why a transaction that ran on the store's writer did not commit.
#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The body said no; everything was rolled back.
    #[error("the transaction was rolled back")]
    Body(E),
    /// The body panicked; everything was rolled back.
    #[error("the transaction's code panicked and was rolled back")]
    Panicked,
    /// The database said no.
    #[error(transparent)]
    Commit(CommitError),
}

/// A body to run inside a transaction, and what to do right after it has ended.
pub trait Body<Tx: ?Sized>: Send + 'static {
    /// What the caller gets.
    type Output: Send + 'static;
    /// How the body fails.
    type Error: Send + 'static;

    /// Runs inside the transaction; an error rolls it back.
    fn run(&mut self, tx: &Tx) -> Result<Self::Output, TransactError<Self::Error>>;

    /// Runs once after the commit, before the caller is told.
    fn committed(&mut self);

    /// Runs once if it did not commit, or if that is unknown.
    fn failed(&mut self);
}

/// A statement that adds events, for any driver to run.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Insert {
    /// The statement, with the database's own placeholders. It depends on the kind of rows, not on their values or
    /// number, so that a driver can keep it prepared.
    pub sql: String,
    /// The values of its placeholders, in order, each of them text.
    pub params: Vec<String>,
}

impl Insert {
    /// A statement and its parameters.
    #[must_use]
    pub fn new(sql: impl Into<String>, params: Vec<String>) -> Self {
        Self { sql: sql.into(), params }
    }
}

/// The parameters hold payloads.
impl fmt::Debug for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Insert").field("sql", &self.sql).finish_non_exhaustive()
    }
}

/// Says how events are written, for drivers that the store knows nothing of.
pub trait WriteSql: Table {
    /// The statement that adds all rows, or none of them. It adds fewer where a message id is there already.
    fn insert_sql(&self, rows: &[NewRow]) -> Result<Insert, StoreError>;
}

/// Runs transactions on a thread of the store's own, for drivers whose transaction can't leave its thread.
pub trait Transact: BlockingWriteOn<Self::Tx> {
    /// The driver's transaction or connection, as the body sees it.
    type Tx: ?Sized;

    /// Runs the body in a transaction. Once begun it runs to its end, also when the caller stops waiting.
    fn transact<B: Body<Self::Tx>>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<B::Output, TransactError<B::Error>>> + Send;
}
