//! Connections of the store's own: how they are made, and how statements and transactions run on them.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillarbox_store_kit::{self as kit, OpenSession, Purpose};
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, Postgres};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Transaction};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::error::Failure;
use crate::insert::Prepared;
use crate::pooler::{self, Pooler};

/// How long a transaction of the store's own may wait for its next statement: a process that is stopped between two
/// must not keep the lock of membership from those that are to take its slots over.
const PAUSE_MS: u32 = 5_000;

/// Every transaction of ours states its isolation, whatever the role's or database's default is: a read that does not
/// see what was committed after its transaction began would pass rows by, and membership would fail for no reason.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A statement and the values that are bound to it.
pub(crate) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// What a call does on a session.
pub(crate) type Work<'c, T> = kit::Work<'c, T, Failure>;

/// How every connection of the store is made.
pub(crate) struct Connector {
    options: PgConnectOptions,
    /// What the server is told to give up after; the store waits a little longer and then throws the connection away.
    statement_timeout: Duration,
    pooler: Pooler,
    found: OnceCell<bool>,
}

impl Connector {
    pub(crate) fn new(options: PgConnectOptions, statement_timeout: Duration, pooler: Pooler) -> Self {
        // Poolers refuse what they do not know of.
        let options = options.extra_float_digits(None).disable_statement_logging();
        Self { options, statement_timeout, pooler, found: OnceCell::new() }
    }

    /// Whether sessions last only as long as a transaction.
    pub(crate) async fn pooled(&self) -> Result<bool, Failure> {
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

    async fn connect(&self, _: Purpose) -> Result<Session, Failure> {
        let pooled = self.pooled().await?;
        let mut connection = PgConnection::connect_with(&self.options).await?;
        if !pooled {
            let timeout_ms = self.statement_timeout.as_millis();
            // A table that empties and fills by the million has no honest statistics: the plans are fixed instead.
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
    /// Behind a pooler: whether what the work began, it also committed.
    kept: bool,
    number: i64,
}

/// A number that no other session of this process has.
fn next_number() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Session {
    /// A statement, kept prepared where the session lasts.
    pub(crate) fn query(&self, sql: &Arc<str>) -> Query<'static> {
        sqlx::query(AssertSqlSafe(Arc::clone(sql))).persistent(!self.pooled)
    }

    /// What a cursor was read from. A connection ends with every crash of its server, also with one that the server
    /// recovers from by itself; behind a pooler, where connections come and go, only the server's own mark tells.
    /// A restarted sequence is another one, which `file` tells.
    pub(crate) fn origin(&self, server: i64, file: Option<i64>) -> i64 {
        let file = file.unwrap_or_default();
        // Marks of servers are times, and positive; numbers of files have 32 bits.
        if self.pooled { server.wrapping_add(file) } else { -(self.number << 32 | file) }
    }

    /// A statement has failed, and the work ends well all the same: nothing of it is kept.
    pub(crate) fn undo(&mut self) {
        self.kept = false;
    }

    pub(crate) fn prepared(&self) -> Prepared {
        if self.pooled { Prepared::Once } else { Prepared::Kept }
    }

    pub(crate) async fn begin(&mut self) -> Result<Tx<'_>, Failure> {
        let prepared = self.prepared();
        if !self.pooled {
            return Ok(Tx { prepared, tx: Open::Own(self.connection.begin_with(BEGIN).await?) });
        }
        self.kept = false;
        Ok(Tx { prepared, tx: Open::Outer(&mut self.connection, &mut self.kept) })
    }
}

/// A transaction of the store's own.
pub(crate) struct Tx<'c> {
    prepared: Prepared,
    pub(crate) tx: Open<'c>,
}

/// Whose transaction it is.
pub(crate) enum Open<'c> {
    Own(Transaction<'c, Postgres>),
    /// Behind a pooler a session runs all its work in one already, which ends as this says.
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

    pub(crate) async fn commit(self) -> Result<(), Failure> {
        match self.tx {
            Open::Own(tx) => tx.commit().await?,
            Open::Outer(_, kept) => *kept = true,
        }
        Ok(())
    }
}

impl kit::Session for Session {
    type Failure = Failure;

    async fn begin_work(&mut self) -> Result<(), Failure> {
        if self.pooled {
            // Preparing and running a statement are two steps: only a transaction keeps them on one server connection.
            self.connection.execute(BEGIN).await?;
            self.kept = true;
        }
        Ok(())
    }

    async fn end_work(&mut self, failed: Option<&Failure>) -> Result<(), Failure> {
        if self.pooled {
            let end = if failed.is_none() && self.kept { "COMMIT" } else { "ROLLBACK" };
            self.connection.execute(end).await?;
        } else if self.connection.should_flush() {
            // A transaction that was dropped is rolled back now, not when the connection is next needed.
            self.connection.flush().await?;
        }
        Ok(())
    }
}

/// Closes a connection in order, within a bound.
pub(crate) async fn hang_up(connection: PgConnection) {
    // The server notices a closed socket too.
    let _ = timeout(Duration::from_secs(1), connection.close()).await;
}
