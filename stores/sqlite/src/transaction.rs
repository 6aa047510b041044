//! Writing in a transaction: the store's, on its writer thread, or the user's own.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    BlockingWriteOn, Body, Cancel, CommitError, ErrorKind, JoinChange, JoinChanged, Settle, Settled,
    StoreError, Transact, TransactError,
};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tokio::sync::oneshot;

use crate::error::DriverError;
use crate::insert::{all_or_none, insert_rows, open_transaction};
use crate::job::Transaction;
use crate::kind::Kind;
use crate::operate::cancel;
use crate::settle::settle;
use crate::sql::Sql;
use crate::store::SqliteTable;
use crate::time::now;

/// The savepoint under which each job of a group runs.
pub(crate) const SAVEPOINT: &str = "pillarbox_job";

/// The writer thread's connection, as the body of a transaction sees it: a [`Connection`] that runs
/// statements but refuses to begin, commit or roll back.
pub struct SqliteTransaction {
    connection: Connection,
    /// The statements that fit the tables there are.
    pub(crate) sql: Arc<Sql>,
    /// The statements for the tables that this release creates.
    pub(crate) newest_sql: Arc<Sql>,
    guarded: Arc<AtomicBool>,
    committed: Arc<AtomicBool>,
}

impl SqliteTransaction {
    pub(crate) fn new(connection: Connection, sql: Arc<Sql>) -> Result<Self, rusqlite::Error> {
        let guarded = Arc::new(AtomicBool::new(false));
        let guard = Arc::clone(&guarded);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let ends = match context.action {
                AuthAction::Transaction { .. } => true,
                AuthAction::Savepoint { savepoint_name, .. } => savepoint_name == SAVEPOINT,
                _ => false,
            };
            if ends && guard.load(Ordering::Relaxed) { Authorization::Deny } else { Authorization::Allow }
        }))?;
        let committed = Arc::new(AtomicBool::new(false));
        let commit = Arc::clone(&committed);
        connection.commit_hook(Some(move || {
            commit.store(true, Ordering::Relaxed);
            false
        }))?;
        Ok(Self { connection, sql: Arc::clone(&sql), newest_sql: sql, guarded, committed })
    }

    /// Chooses the statements that fit the tables there are now.
    pub(crate) fn fit(&mut self) {
        self.sql = self.newest_sql.fitting(&self.connection);
    }

    /// Runs user code that cannot end the transaction.
    pub(crate) fn guarded<T>(&self, run: impl FnOnce(&Self) -> T) -> T {
        struct Reset<'a>(&'a AtomicBool);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.guarded.store(true, Ordering::Relaxed);
        let _reset = Reset(&self.guarded);
        run(self)
    }

    /// Clears the record of an earlier commit.
    pub(crate) fn expect_no_commit(&self) {
        self.committed.store(false, Ordering::Relaxed);
    }

    /// Whether a commit has started since [`expect_no_commit`](Self::expect_no_commit).
    pub(crate) fn saw_commit(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Runs part of the transaction under a savepoint. If the part fails, only its changes are rolled back.
    pub fn savepoint<T, E: From<rusqlite::Error>>(
        &self,
        part: impl FnOnce(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.execute_batch("SAVEPOINT pillarbox_part")?;
        let result = part(self);
        if result.is_err() {
            self.execute_batch("ROLLBACK TO pillarbox_part")?;
        }
        self.execute_batch("RELEASE pillarbox_part")?;
        result
    }
}

impl Deref for SqliteTransaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// A connection whose type shows that a transaction is open.
pub(crate) trait InTransaction: Deref<Target = Connection> {}

impl InTransaction for SqliteTransaction {}

/// A transaction of the user's own connection to the same file.
impl InTransaction for rusqlite::Transaction<'_> {}

/// A savepoint in a transaction of the user's own connection.
impl InTransaction for rusqlite::Savepoint<'_> {}

/// Writes on a [`SqliteTransaction`], or on a [`rusqlite::Transaction`] or [`rusqlite::Savepoint`] of the
/// user's own connection to the same file.
impl<K: Kind, Tx: InTransaction> BlockingWriteOn<Tx> for SqliteTable<K> {
    fn settle_blocking(&self, tx: &Tx, request: &Settle) -> Result<Settled, StoreError> {
        self.on(tx, "settle", |sql| settle::<K>(tx, sql, request))
    }

    fn change_join_blocking(&self, tx: &Tx, request: &JoinChange) -> Result<JoinChanged, StoreError> {
        self.on(tx, "change a join", |sql| K::change_join(tx, sql, request))
    }

    fn insert_blocking(&self, tx: &Tx, rows: &[NewRow]) -> Result<Vec<Written>, StoreError> {
        insert_rows::<K>(tx, &self.shared().sql, rows, now(None))
            .map_err(|failure| failure.into_store_error("insert", self.name()))
    }

    fn cancel_blocking(&self, tx: &Tx, request: &Cancel) -> Result<Vec<EventId>, StoreError> {
        self.on(tx, "cancel", |sql| cancel(tx, sql, request))
    }
}

impl<K> SqliteTable<K> {
    /// Makes a change within a transaction, wholly or not at all. It takes the write lock first: a deferred
    /// transaction that reads before it writes would fail if another connection writes in between.
    fn on<T>(
        &self,
        connection: &Connection,
        operation: &'static str,
        change: impl FnOnce(&Sql) -> Result<T, DriverError>,
    ) -> Result<T, StoreError> {
        let sql = &self.shared().sql.fitting(connection);
        let locked = || {
            open_transaction(connection)?;
            connection.prepare_cached(&sql.write_lock)?.execute([])?;
            all_or_none(connection, || change(sql))
        };
        locked().map_err(|failure| failure.into_store_error(operation, self.name()))
    }
}

impl<K: Kind> Transact for SqliteTable<K> {
    type Tx = SqliteTransaction;

    fn transact<B: Body<SqliteTransaction>>(
        &self,
        body: B,
    ) -> impl Future<Output = Result<B::Output, TransactError<B::Error>>> + Send {
        let (reply, answer) = oneshot::channel();
        let store = Arc::clone(&self.shared().name);
        let job = Box::new(Transaction { store, body, result: None, reply: Some(reply) });
        async move {
            let gone = |outcome: fn(StoreError) -> CommitError| {
                let detail = "the writer thread has ended";
                let error = StoreError::new(ErrorKind::Unavailable, "transaction", self.name(), detail);
                Err(TransactError::Commit(outcome(error)))
            };
            if let Err(error) = self.refuse_read_only("transaction") {
                return Err(TransactError::Commit(CommitError::Refused(error)));
            }
            if !self.shared().writer.send(job).await {
                return gone(CommitError::Refused);
            }
            answer.await.unwrap_or_else(|_| gone(CommitError::Unknown))
        }
    }
}
