//! The store's own connections: how they are opened, and how statements and transactions run on them.

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
use crate::dialect::Dialect;
use crate::error::DriverError;
use crate::pipeline::Pipeline;
use crate::row::{number_of, text_of};

/// Begins a transaction in which the server waits at most 5 s for the next statement. A process
/// that is suspended between two statements must not keep the membership lock from the nodes
/// that take over its slots.
const BEGIN: &str = "SET SESSION wait_timeout = 5; START TRANSACTION";
/// Ends the transaction and its short timeout: an idle connection of the store is not abandoned.
const COMMIT: &str = "COMMIT; SET SESSION wait_timeout = 604800";

/// A call that loses a conflict runs again, so each try waits for a lock for only this fraction of the
/// statement timeout.
const LOCK_PART: u64 = 5;

/// The shortest lock wait timeout that every server accepts, in seconds.
const SHORTEST_LOCK_S: u64 = 1;

/// A statement with the values bound so far.
pub(crate) type Asked = Query<'static, MySql, MySqlArguments>;

/// The work of a call on a session.
pub(crate) type Work<'c, T> = kit::Work<'c, T, DriverError>;

/// Opens the store's connections.
pub(crate) struct Connector {
    options: MySqlConnectOptions,
    /// How long the server lets a statement run. The store waits a little longer,
    /// then discards the connection.
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

    async fn connect(&self, purpose: Purpose) -> Result<Session, DriverError> {
        let mut connection = MySqlConnection::connect_with(&self.options).await?;
        let lock_s = match purpose {
            // A settle holds a share lock on its node's row, so while it waits, the
            // node's heartbeats wait too.
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
        if server.dialect == Dialect::Tidb {
            prepare_tidb(&mut connection).await?;
        }
        Ok(Session {
            connection,
            server,
            open: false,
            number: next_number(),
            committed: Committed::default(),
            row_bytes: 0,
        })
    }
}

/// Facts about the server at the other end of a connection.
pub(crate) struct Server {
    pub(crate) maria: bool,
    pub(crate) dialect: Dialect,
    /// The usual lock wait timeout of a statement, in seconds.
    pub(crate) patience_s: u64,
}

impl Server {
    fn read(sets: &[Vec<MySqlRow>], patience_s: u64) -> Result<Self, DriverError> {
        let unknown = || {
            DriverError::Refused(ErrorKind::Unexpected, "the server did not report its version".to_owned())
        };
        let row = sets.iter().flatten().next().ok_or_else(unknown)?;
        let part = |column| text_of(row, column).unwrap_or_default();
        let version = part(0);
        Ok(Self { maria: version.contains("MariaDB"), dialect: Dialect::of_version(version), patience_s })
    }

    /// The shortest lock wait timeout of this server, in seconds. MariaDB accepts 0: no wait at all.
    pub(crate) const fn impatience(&self) -> u64 {
        if self.maria { 0 } else { 1 }
    }

    fn limit(&self, timeout: Duration) -> String {
        if self.maria {
            // Without this, MariaDB turns long IN lists into joins, which lock rows in no fixed
            // order and so can deadlock.
            format!(
                "SET SESSION max_statement_time = {}, in_predicate_conversion_threshold = 0",
                timeout.as_secs_f64()
            )
        } else {
            // By default, MySQL caches a table's next sequence number for a day.
            let fresh = match self.dialect {
                Dialect::Mysql => ", information_schema_stats_expiry = 0",
                Dialect::Tidb => "",
            };
            format!("SET SESSION max_execution_time = {}{fresh}", timeout.as_millis())
        }
    }
}

/// Settings under which TiDB accepts statements and does not do what they say. Each is off by default.
const PRETENCES: [&str; 2] = ["tidb_enable_noop_functions", "tidb_skip_isolation_level_check"];

/// Sets up a session on TiDB: transactions lock what they write. Refuses a server that pretends.
async fn prepare_tidb(connection: &mut MySqlConnection) -> Result<(), DriverError> {
    let asked = PRETENCES.map(|setting| format!("@@{setting}")).join(", ");
    let text = format!("SET SESSION tidb_txn_mode = 'pessimistic'; SELECT {asked}");
    let sets = results(connection, text).await?;
    let row = sets.iter().flatten().next();
    let values = [0, 1].map(|column| row.and_then(|row| text_of(row, column)).unwrap_or_default());
    match refusal(values) {
        Some(detail) => Err(DriverError::Refused(ErrorKind::Unsupported, detail)),
        None => Ok(()),
    }
}

/// Why a TiDB with these values of [`PRETENCES`] is refused, and the statements that change it.
fn refusal(values: [&str; 2]) -> Option<String> {
    let is_on = |value: &str| !matches!(value, "" | "0" | "OFF");
    let wrong: Vec<&str> =
        PRETENCES.into_iter().zip(values).filter(|(_, value)| is_on(value)).map(|(name, _)| name).collect();
    if wrong.is_empty() {
        return None;
    }
    let fixes: Vec<String> = wrong.iter().map(|name| format!("SET GLOBAL {name} = OFF")).collect();
    Some(format!(
        "TiDB accepts locks and isolation levels that it does not give while {} is on; run `{}`",
        wrong.join(" or "),
        fixes.join("; ")
    ))
}

/// The dialect of the server at the other end of a connection.
#[cfg(feature = "sqlx-0_9")]
pub(crate) async fn dialect_of(connection: &mut MySqlConnection) -> Result<Dialect, DriverError> {
    let sets = results(connection, "SELECT version()".to_owned()).await?;
    Ok(Server::read(&sets, SHORTEST_LOCK_S)?.dialect)
}

/// One connection, and how statements run on it.
pub(crate) struct Session {
    pub(crate) connection: MySqlConnection,
    pub(crate) server: Server,
    /// Whether a transaction has begun and was not committed.
    open: bool,
    /// Identifies this session as the origin of a cursor. A crash of the server ends the connection, so a
    /// cursor never outlives its server unnoticed.
    pub(crate) number: i64,
    /// The range of sequence numbers that a reader on this session knows to be committed.
    pub(crate) committed: Committed,
    /// The mean size of the rows that were read last; 0 if none were.
    pub(crate) row_bytes: usize,
}

/// Returns a number that no other session of this process has.
fn next_number() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Session {
    /// A statement that stays prepared.
    pub(crate) fn query(&self, sql: impl Into<Arc<str>>) -> Asked {
        prepared(sql)
    }

    /// A statement whose text is hardly ever repeated, so it is not kept prepared.
    pub(crate) fn once(&self, sql: impl Into<Arc<str>>) -> Asked {
        once(sql)
    }

    /// Sends several statements in one round trip and returns one set of rows for each,
    /// empty if it returns none.
    pub(crate) async fn results(&mut self, text: String) -> Result<Vec<Vec<MySqlRow>>, DriverError> {
        results(&mut self.connection, text).await
    }

    pub(crate) async fn begin(&mut self) -> Result<(), DriverError> {
        self.open = true;
        self.connection.execute(sqlx::raw_sql(BEGIN)).await?;
        Ok(())
    }

    pub(crate) async fn commit(&mut self) -> Result<(), DriverError> {
        self.connection.execute(sqlx::raw_sql(COMMIT)).await?;
        self.open = false;
        Ok(())
    }

    /// Begins a transaction and sends statements in the same round trip; returns the rows of each.
    pub(crate) async fn begin_with(&mut self, text: &str) -> Result<Vec<Vec<MySqlRow>>, DriverError> {
        self.open = true;
        let sets = self.results(format!("{BEGIN}; {text}")).await?;
        Ok(sets.into_iter().skip(BEGIN.split(';').count()).collect())
    }

    /// Begins a transaction in the same round trip as the first statements sent in it.
    pub(crate) fn begins(&mut self) -> Pipeline<'_> {
        self.open = true;
        Pipeline::new(&mut self.connection, BEGIN)
    }

    /// Sends statements and commits in one round trip.
    pub(crate) async fn commit_with(&mut self, text: &str) -> Result<(), DriverError> {
        if text.is_empty() {
            return self.commit().await;
        }
        self.results(format!("{text}; {COMMIT}")).await?;
        self.open = false;
        Ok(())
    }

    async fn roll_back(&mut self) -> Result<(), DriverError> {
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
    type Error = DriverError;

    async fn begin_work(&mut self) -> Result<(), DriverError> {
        Ok(())
    }

    async fn end_work(&mut self, failed: Option<&DriverError>) -> Result<(), DriverError> {
        // Work that succeeds without a commit has found nothing to do, and its transaction is rolled back.
        if failed.map_or(self.open, kit::ServerFailure::spares_connection) {
            self.roll_back().await?;
        }
        Ok(())
    }
}

/// A statement that stays prepared.
pub(crate) fn prepared(sql: impl Into<Arc<str>>) -> Asked {
    sqlx::query(AssertSqlSafe(sql.into()))
}

/// A statement whose text is hardly ever repeated, so it is not kept prepared.
pub(crate) fn once(sql: impl Into<Arc<str>>) -> Asked {
    prepared(sql).persistent(false)
}

/// Sends several statements in one round trip and returns one set of rows for each, empty if it returns none.
pub(crate) async fn results(
    connection: &mut MySqlConnection,
    text: String,
) -> Result<Vec<Vec<MySqlRow>>, DriverError> {
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

/// The first column of rows of the text protocol, as numbers.
pub(crate) fn numbers(rows: &[MySqlRow]) -> impl Iterator<Item = i64> {
    rows.iter().filter_map(|row| text_of(row, 0)?.parse().ok())
}

/// A column of a prepared statement's row that must be a number.
pub(crate) fn number(row: &MySqlRow, column: usize) -> Result<i64, DriverError> {
    number_of(row, column).ok_or_else(|| {
        DriverError::Refused(ErrorKind::Unexpected, "the server did not return a number".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tidb_that_only_pretends_is_refused_with_the_statement_to_run() {
        for fine in [["OFF", "0"], ["OFF", "OFF"], ["", ""]] {
            assert_eq!(refusal(fine), None, "{fine:?}");
        }
        for (values, fix) in [
            (["ON", "OFF"], "`SET GLOBAL tidb_enable_noop_functions = OFF`"),
            (["WARN", "0"], "`SET GLOBAL tidb_enable_noop_functions = OFF`"),
            (["OFF", "1"], "`SET GLOBAL tidb_skip_isolation_level_check = OFF`"),
            (
                ["ON", "ON"],
                "`SET GLOBAL tidb_enable_noop_functions = OFF; SET GLOBAL tidb_skip_isolation_level_check = OFF`",
            ),
        ] {
            let detail = refusal(values).unwrap();
            assert!(detail.ends_with(fix), "{detail}");
        }
    }
}
