//! The store's own connections: how they are opened, and how statements and transactions run on them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillarbox_store_kit::{self as kit, OpenSession, Purpose};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, Postgres};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Transaction};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::error::DriverError;
use crate::insert::Prepared;
use crate::pooler::{self, Pooler};

/// How long one of the store's transactions may idle between two statements, in milliseconds. A process that
/// is suspended there must not keep the membership lock from the nodes that take over its slots.
const PAUSE_MS: u32 = 5_000;

/// Sets the isolation level of each transaction, whatever the default of the role or database is. A read that
/// does not see rows committed after its transaction began would pass them by, and
/// membership calls would fail needlessly.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A statement with its bound values.
pub(crate) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// The future of a call on a session.
pub(crate) type Work<'c, T> = kit::Work<'c, T, DriverError>;

/// Opens all connections of the store.
pub(crate) struct Connector {
    options: PgConnectOptions,
    /// The server cancels statements after this time. The store waits a little
    /// longer, then drops the connection.
    statement_timeout: Duration,
    pooler: Pooler,
    found: OnceCell<bool>,
}

impl Connector {
    pub(crate) fn new(options: PgConnectOptions, statement_timeout: Duration, pooler: Pooler) -> Self {
        // Poolers refuse startup parameters that they do not know.
        let options = options.extra_float_digits(None).disable_statement_logging();
        Self { options, statement_timeout, pooler, found: OnceCell::new() }
    }

    /// Whether a session lasts only for one transaction, because a pooler is in between.
    pub(crate) async fn pooled(&self) -> Result<bool, DriverError> {
        let found = self.found.get_or_try_init(|| async {
            match self.pooler {
                Pooler::None => Ok(false),
                Pooler::Transaction => Ok(true),
                Pooler::Detect => pooler::detect(&self.options).await,
            }
        });
        Ok(*found.await?)
    }

    pub(crate) fn options(&self) -> &PgConnectOptions {
        &self.options
    }
}

impl OpenSession for Connector {
    type Session = Session;

    async fn connect(&self, _: Purpose) -> Result<Session, DriverError> {
        let pooled = self.pooled().await?;
        let mut connection = PgConnection::connect_with(&self.options).await?;
        if !pooled {
            let timeout_ms = self.statement_timeout.as_millis();
            // An outbox fills and empties by millions of rows, so planner statistics are often
            // wrong. Fix the plans instead.
            let settings = format!(
                "SET statement_timeout = {timeout_ms}; SET lock_timeout = {timeout_ms}; \
                 SET idle_in_transaction_session_timeout = {PAUSE_MS}; \
                 SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan; \
                 SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; \
                 SET enable_mergejoin = off; SET jit = off"
            );
            connection.execute(sqlx::raw_sql(AssertSqlSafe(settings))).await?;
        }
        Ok(Session { connection, pooled, kept: true, number: next_number() })
    }
}

/// One connection, and how statements run on it.
pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    pooled: bool,
    /// Behind a pooler: whether to commit the work. `begin` and `undo` clear it, `commit` sets it.
    kept: bool,
    number: i64,
}

/// A number that is unique among the sessions of this process.
fn next_number() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Session {
    /// A statement, kept prepared unless a pooler is in between.
    pub(crate) fn query(&self, sql: &Arc<str>) -> Query<'static> {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(!self.pooled)
    }

    /// Identifies the source of a cursor's sequence numbers.
    ///
    /// A connection ends with every crash of its server, even if the server recovers by itself, so the number
    /// of the session identifies the run of the server. Behind a pooler, connections come and go, and only
    /// the server's own mark identifies it. `file` is the file number of the sequence, which changes when the
    /// sequence is restarted.
    pub(crate) fn origin(&self, server: i64, file: Option<i64>) -> i64 {
        let file = file.unwrap_or_default();
        // Server marks are positive times and session marks are negative. File numbers have 32 bits.
        if self.pooled { server.wrapping_add(file) } else { -(self.number << 32 | file) }
    }

    /// Discards the work of a call that succeeds although one of its statements has failed.
    pub(crate) fn undo(&mut self) {
        self.kept = false;
    }

    pub(crate) fn prepared(&self) -> Prepared {
        if self.pooled { Prepared::Once } else { Prepared::Kept }
    }

    pub(crate) async fn begin(&mut self) -> Result<Tx<'_>, DriverError> {
        let prepared = self.prepared();
        if !self.pooled {
            return Ok(Tx { prepared, tx: Open::Own(self.connection.begin_with(BEGIN).await?) });
        }
        self.kept = false;
        Ok(Tx { prepared, tx: Open::Outer(&mut self.connection, &mut self.kept) })
    }
}

/// One of the store's own transactions.
pub(crate) struct Tx<'c> {
    prepared: Prepared,
    pub(crate) tx: Open<'c>,
}

/// The transaction that statements run in.
pub(crate) enum Open<'c> {
    Own(Transaction<'c, Postgres>),
    /// Behind a pooler the session runs all its work in one transaction already. The flag
    /// tells whether to commit it.
    Outer(&'c mut PgConnection, &'c mut bool),
}

impl Deref for Open<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Own(tx) => tx,
            Self::Outer(connection, _) => connection,
        }
    }
}

impl DerefMut for Open<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(tx) => tx,
            Self::Outer(connection, _) => connection,
        }
    }
}

impl Tx<'_> {
    pub(crate) fn query(&self, sql: &Arc<str>) -> Query<'static> {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(self.prepared == Prepared::Kept)
    }

    pub(crate) fn prepared(&self) -> Prepared {
        self.prepared
    }

    pub(crate) async fn commit(self) -> Result<(), DriverError> {
        match self.tx {
            Open::Own(tx) => tx.commit().await?,
            Open::Outer(_, kept) => *kept = true,
        }
        Ok(())
    }
}

impl kit::Session for Session {
    type Error = DriverError;

    async fn begin_work(&mut self) -> Result<(), DriverError> {
        if self.pooled {
            // Preparing and executing a statement are two steps; only a transaction keeps
            // both on one server connection.
            self.connection.execute(BEGIN).await?;
            self.kept = true;
        }
        Ok(())
    }

    async fn end_work(&mut self, failed: Option<&DriverError>) -> Result<(), DriverError> {
        if self.pooled {
            let end = if failed.is_none() && self.kept { "COMMIT" } else { "ROLLBACK" };
            self.connection.execute(end).await?;
        } else if self.connection.should_flush() {
            // Roll a dropped transaction back now, not when the connection is next used.
            self.connection.flush().await?;
        }
        Ok(())
    }
}

/// Closes a connection cleanly, within a second.
pub(crate) async fn hang_up(connection: PgConnection) {
    // If this fails, the server notices the closed socket.
    let _ = timeout(Duration::from_secs(1), connection.close()).await;
}
