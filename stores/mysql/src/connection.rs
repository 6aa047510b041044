//! Connections of the store's own: how they are made, and how statements and transactions run on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use pillarbox::port::ErrorKind;
use pillarbox_store_kit::{self as kit, OpenSession, Purpose};
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor};

use crate::cursor::Committed;
use crate::error::Failure;
use crate::flight::Flight;
use crate::row::{number_of, text_of};

/// How long a transaction of the store's own may wait for its next statement: a process that is stopped between two
/// must not keep the lock of membership from those that are to take its slots over.
const BEGIN: &str = "SET SESSION wait_timeout = 5; START TRANSACTION";
/// A connection of ours that is idle is not a forgotten one.
const COMMIT: &str = "COMMIT; SET SESSION wait_timeout = 604800";

/// Work that loses may be done again: each try has this part of a statement's time to wait for a lock.
const LOCK_PART: u64 = 5;

/// The shortest time to wait for a lock that every server can be told.
const SHORTEST_LOCK_S: u64 = 1;

/// A statement with the values that are bound so far.
pub(crate) type Asked = Query<'static, MySql, MySqlArguments>;

/// What a call does on a session.
pub(crate) type Work<'c, T> = kit::Work<'c, T, Failure>;

/// How every connection of the store is made.
pub(crate) struct Connector {
    options: MySqlConnectOptions,
    /// What the server is told to give up after; the store waits a little longer and then throws the connection away.
    statement_timeout: Duration,
}

impl Connector {
    pub(crate) fn new(options: MySqlConnectOptions, statement_timeout: Duration) -> Self {
        let options = options.charset("utf8mb4").disable_statement_logging();
        Self { options, statement_timeout }
    }
}

impl OpenSession for Connector {
    type Session = Session;

    async fn connect(&self, purpose: Purpose) -> Result<Session, Failure> {
        let mut connection = MySqlConnection::connect_with(&self.options).await?;
        let lock_s = match purpose {
            // While a settle waits it holds up the heartbeats of its node.
            Purpose::Settle => SHORTEST_LOCK_S,
            _ => self.statement_timeout.as_secs().div_ceil(LOCK_PART).max(1),
        };
        let settings = format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, \
             innodb_lock_wait_timeout = {lock_s}, wait_timeout = 604800; \
             SELECT version()"
        );
        let sets = results(&mut connection, settings).await?;
        let server = Server::read(&sets, lock_s)?;
        connection.execute(sqlx::raw_sql(AssertSqlSafe(server.limit(self.statement_timeout)))).await?;
        Ok(Session {
            connection,
            server,
            open: false,
            number: next_number(),
            committed: Committed::default(),
        })
    }
}

/// What a connection has learned of its server.
pub(crate) struct Server {
    maria: bool,
    pub(crate) tidb: bool,
    /// How long a statement waits for a lock, as a rule.
    pub(crate) patience_s: u64,
}

impl Server {
    fn read(sets: &[Vec<MySqlRow>], patience_s: u64) -> Result<Self, Failure> {
        let unknown =
            || Failure::Refused(ErrorKind::Unexpected, "the server tells nothing of itself".to_owned());
        let row = sets.iter().flatten().next().ok_or_else(unknown)?;
        let part = |column| text_of(row, column).unwrap_or_default();
        Ok(Self { maria: part(0).contains("MariaDB"), tidb: part(0).contains("TiDB"), patience_s })
    }

    /// The shortest time to wait for a lock: MariaDB can do without.
    pub(crate) const fn impatience(&self) -> u64 {
        if self.maria { 0 } else { 1 }
    }

    fn limit(&self, timeout: Duration) -> String {
        if self.maria {
            // Lists of numbers stay lists: a join with them would lock rows in no order.
            format!(
                "SET SESSION max_statement_time = {}, in_predicate_conversion_threshold = 0",
                timeout.as_secs_f64()
            )
        } else {
            // What the server tells of a table's next number is a day old otherwise.
            let fresh = if self.tidb { "" } else { ", information_schema_stats_expiry = 0" };
            format!("SET SESSION max_execution_time = {}{fresh}", timeout.as_millis())
        }
    }
}

/// One connection, and how statements run on it.
pub(crate) struct Session {
    pub(crate) connection: MySqlConnection,
    pub(crate) server: Server,
    /// Whether a transaction was begun and not committed.
    open: bool,
    /// What a cursor was read from: a connection ends with every crash of its server.
    pub(crate) number: i64,
    /// What a reader on this session knows of the numbers ahead.
    pub(crate) committed: Committed,
}

/// A number that no other session of this process has.
fn next_number() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Session {
    /// A statement that is kept prepared.
    pub(crate) fn query(&self, sql: impl Into<Arc<str>>) -> Asked {
        prepared(sql)
    }

    /// A statement whose text is hardly ever the same.
    pub(crate) fn once(&self, sql: impl Into<Arc<str>>) -> Asked {
        once(sql)
    }

    /// Several statements in one go; the rows of each that has some to give.
    pub(crate) async fn results(&mut self, text: String) -> Result<Vec<Vec<MySqlRow>>, Failure> {
        results(&mut self.connection, text).await
    }

    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        self.open = true;
        self.connection.execute(sqlx::raw_sql(BEGIN)).await?;
        Ok(())
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        self.connection.execute(sqlx::raw_sql(COMMIT)).await?;
        self.open = false;
        Ok(())
    }

    /// Begins a transaction with statements in the same flight, and answers the rows of each.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<Vec<Vec<MySqlRow>>, Failure> {
        self.open = true;
        let sets = self.results(format!("{BEGIN}; {text}")).await?;
        Ok(sets.into_iter().skip(BEGIN.split(';').count()).collect())
    }

    /// Begins a transaction with the first statements that are sent in it.
    pub(crate) fn begins(&mut self) -> Flight<'_> {
        self.open = true;
        Flight::new(&mut self.connection, BEGIN)
    }

    /// Commits with statements before it in the same flight.
    pub(crate) async fn commit_with(&mut self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return self.commit().await;
        }
        self.results(format!("{text}; {COMMIT}")).await?;
        self.open = false;
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), Failure> {
        let text = format!(
            "ROLLBACK; SET SESSION wait_timeout = 604800, innodb_lock_wait_timeout = {}",
            self.server.patience_s
        );
        self.connection.execute(sqlx::raw_sql(AssertSqlSafe(text))).await?;
        self.open = false;
        Ok(())
    }
}

impl kit::Session for Session {
    type Failure = Failure;

    async fn begin_work(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    async fn end_work(&mut self, failed: Option<&Failure>) -> Result<(), Failure> {
        // Work that ends well without committing has found that there is nothing to do.
        if failed.map_or(self.open, kit::ServerFailure::spares_connection) {
            self.roll_back().await?;
        }
        Ok(())
    }
}

/// A statement that is kept prepared.
pub(crate) fn prepared(sql: impl Into<Arc<str>>) -> Asked {
    sqlx::query(AssertSqlSafe(sql.into()))
}

/// A statement whose text is hardly ever the same.
pub(crate) fn once(sql: impl Into<Arc<str>>) -> Asked {
    prepared(sql).persistent(false)
}

/// The rows of each statement of a text that has some to give, empty ones too.
pub(crate) async fn results(
    connection: &mut MySqlConnection,
    text: String,
) -> Result<Vec<Vec<MySqlRow>>, Failure> {
    let (mut sets, mut rows) = (Vec::new(), Vec::new());
    let mut stream = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(connection);
    while let Some(next) = stream.try_next().await? {
        match next {
            Either::Left(_) => sets.push(std::mem::take(&mut rows)),
            Either::Right(row) => rows.push(row),
        }
    }
    Ok(sets)
}

/// The first column of rows that a text answered, as numbers.
pub(crate) fn numbers(rows: &[MySqlRow]) -> impl Iterator<Item = i64> {
    rows.iter().filter_map(|row| text_of(row, 0)?.parse().ok())
}

/// A column of a prepared statement's row that must be a number.
pub(crate) fn number(row: &MySqlRow, column: usize) -> Result<i64, Failure> {
    number_of(row, column).ok_or_else(|| {
        Failure::Refused(ErrorKind::Unexpected, "the server answered with no number".to_owned())
    })
}
