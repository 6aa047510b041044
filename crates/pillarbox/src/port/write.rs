//! The writing ports: write events in the caller's own transaction, whose type is a parameter.

use std::fmt;
use std::future::Future;

use super::{Cancel, ErrorKind, JoinChange, JoinChanged, Settle, Settled, StoreError, StoreFuture, Table};
use crate::model::{EventId, NewRow, Written};

/// Writes in a transaction of type `Tx` of an asynchronous driver.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't write on `{Tx}`",
    label = "not a transaction of this store's driver",
    note = "pass `&mut tx`, where `tx` is a transaction that the outbox, the queue or your driver has begun; a pool, a \
            connection or a client is none"
)]
pub trait WriteOn<Tx: ?Sized>: Table {
    /// Inserts all rows, with one statement if the database can; never commits.
    ///
    /// Without rows it fails exactly if the transaction can no longer commit. Some drivers report success for
    /// the commit of a transaction that an earlier error has aborted.
    fn insert<'a>(&'a self, tx: &'a mut Tx, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>>;

    /// Deletes pending events and writes audit entries, both in the transaction. Returns the ids of the
    /// deleted events.
    fn cancel_on<'a>(&'a self, tx: &'a mut Tx, request: Cancel) -> StoreFuture<'a, Vec<EventId>>;

    /// Settles like [`Table::settle`], as part of the transaction.
    fn settle_on<'a>(&'a self, _tx: &'a mut Tx, _request: Settle) -> StoreFuture<'a, Settled> {
        Box::pin(async { Err(no_way(self, "settle")) })
    }

    /// Changes a join like [`Joins::change_join`](super::Joins::change_join), as part of the transaction.
    fn change_join_on<'a>(&'a self, _tx: &'a mut Tx, _request: JoinChange) -> StoreFuture<'a, JoinChanged> {
        Box::pin(async { Err(no_way(self, "change a join")) })
    }
}

fn no_way(store: &(impl Table + ?Sized), operation: &'static str) -> StoreError {
    let detail = "this store can't do that on a transaction of this driver";
    StoreError::new(ErrorKind::Unsupported, operation, &store.facts().name, detail)
}

/// Writes in a transaction of type `Tx` of a blocking driver.
pub trait BlockingWriteOn<Tx: ?Sized>: Table {
    /// Inserts all rows; never commits.
    fn insert_blocking(&self, tx: &Tx, rows: &[NewRow]) -> Result<Vec<Written>, StoreError>;

    /// Deletes pending events and writes audit entries, both in the transaction. Returns the ids of the
    /// deleted events.
    fn cancel_blocking(&self, tx: &Tx, request: &Cancel) -> Result<Vec<EventId>, StoreError>;

    /// Settles like [`Table::settle`], as part of the transaction.
    fn settle_blocking(&self, tx: &Tx, request: &Settle) -> Result<Settled, StoreError>;

    /// Changes a join like [`Joins::change_join`](super::Joins::change_join), as part of the transaction.
    fn change_join_blocking(&self, tx: &Tx, request: &JoinChange) -> Result<JoinChanged, StoreError>;
}

/// Why a commit did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was committed.
    #[error("the transaction was not committed")]
    Refused(#[source] StoreError),
    /// The answer was lost, so the transaction may or may not be committed. If it is, the reader delivers its
    /// events.
    #[error("the outcome of the commit is unknown")]
    Unknown(#[source] StoreError),
}

/// Begins and ends transactions of the store.
pub trait Begin: WriteOn<Self::Tx> {
    /// The driver's transaction type.
    type Tx: Send + 'static;

    /// What the driver runs statements on: its connection, client or session.
    type Conn: ?Sized;

    /// The connection of a transaction.
    fn conn(tx: &mut Self::Tx) -> &mut Self::Conn;

    /// Opens a transaction.
    fn begin(&self) -> StoreFuture<'_, Self::Tx>;

    /// Commits a transaction.
    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Inserts the last rows like [`WriteOn::insert`] and commits. If the insert fails, nothing is committed.
    ///
    /// `inserted` runs once the rows are inserted. A store whose driver can send both statements at once
    /// saves a round trip.
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

    /// Rolls a transaction back.
    fn rollback(&self, tx: Self::Tx) -> StoreFuture<'_, ()>;
}

/// Why a transaction on the store's writer thread did not commit.
#[derive(Debug, thiserror::Error)]
pub enum TransactError<E> {
    /// The body returned an error; everything was rolled back.
    #[error("the transaction was rolled back")]
    Body(E),
    /// The body panicked; everything was rolled back.
    #[error("the transaction's code panicked and was rolled back")]
    Panicked,
    /// The database refused the commit, or its outcome is unknown.
    #[error(transparent)]
    Commit(CommitError),
}

/// Code to run inside a transaction, with callbacks for its end.
pub trait Body<Tx: ?Sized>: Send + 'static {
    /// The value returned to the caller.
    type Output: Send + 'static;
    /// The error of the body.
    type Error: Send + 'static;

    /// Runs inside the transaction; an error rolls it back.
    fn run(&mut self, tx: &Tx) -> Result<Self::Output, TransactError<Self::Error>>;

    /// Runs once after the commit, before the caller gets the result.
    fn committed(&mut self);

    /// Runs once if the transaction did not commit.
    fn failed(&mut self);

    /// Runs once if it is unknown whether the transaction committed.
    fn unknown(&mut self);
}

/// A statement that inserts events, to be run by any driver.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Insert {
    /// The statement, with the database's own placeholders. It depends on the kind of the rows, not on their
    /// values or number, so a driver can keep it prepared.
    pub sql: String,
    /// The values of the placeholders, in order, all as text.
    pub params: Vec<String>,
}

impl Insert {
    /// Creates an insert from a statement and its parameters.
    #[must_use]
    pub fn new(sql: impl Into<String>, params: Vec<String>) -> Self {
        Self { sql: sql.into(), params }
    }
}

/// Omits the parameters, because they contain payloads.
impl fmt::Debug for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Insert").field("sql", &self.sql).finish_non_exhaustive()
    }
}

/// Builds insert statements for drivers that the store does not know.
pub trait WriteSql: Table {
    /// The statement that inserts all rows or none. Rows whose message id exists already are not inserted
    /// again.
    fn insert_sql(&self, rows: &[NewRow]) -> Result<Insert, StoreError>;
}

/// Runs transactions on the store's own thread, for drivers whose transaction cannot leave its thread.
pub trait Transact: BlockingWriteOn<Self::Tx> {
    /// The driver's transaction or connection, as the body sees it.
    type Tx: ?Sized;

    /// Runs the body in a transaction. Once begun it runs to completion, even if the caller stops waiting.
    fn transact<B: Body<Self::Tx>>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<B::Output, TransactError<B::Error>>> + Send;
}
