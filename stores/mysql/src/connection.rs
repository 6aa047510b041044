//! Connections of the store's own, each kind reserved for its work, so that a busy pool can't take a lease away.

use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use pillarbox::port::ErrorKind;
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Executor};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::TaskTracker;

use crate::cursor::Committed;
use crate::error::Failure;
use crate::flight::Flight;
use crate::row::{number_of, text_of};

/// How long a transaction of the store's own may wait for its next statement: a process that is stopped between two
/// must not keep the lock of membership from those that are to take its slots over.
const BEGIN: &str = "SET SESSION wait_timeout = 5; START TRANSACTION";
/// A connection of ours that is idle is not a forgotten one.
const COMMIT: &str = "COMMIT; SET SESSION wait_timeout = 604800";

/// How often work that lost against another transaction is done again, and how long it waits before the first time.
const TRIES: u32 = 5;
const FIRST_PAUSE_MS: u64 = 2;

/// The shortest time to wait for a lock that every server can be told.
const SHORTEST_LOCK_S: u64 = 1;

/// How long the statements of a connection wait for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A good part of the time that a statement has.
    Usual,
    /// Hardly: while a settle waits it holds up the heartbeats of its node.
    Short,
}

/// What a call does on a session; boxed, because it borrows the session.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'c>>;

/// How every connection of the store is made, and who waits for the work on them.
pub(crate) struct Sessions {
    options: MySqlConnectOptions,
    /// What the server is told to give up after; the store waits a little longer and then throws the connection away.
    statement_timeout: Duration,
    tasks: TaskTracker,
}

impl Sessions {
    pub(crate) fn new(options: MySqlConnectOptions, statement_timeout: Duration) -> Self {
        let options = options.charset("utf8mb4").disable_statement_logging();
        Self { options, statement_timeout, tasks: TaskTracker::new() }
    }

    pub(crate) async fn connect(&self, patience: Patience) -> Result<Session, Failure> {
        let mut connection = MySqlConnection::connect_with(&self.options).await?;
        let lock_s = match patience {
            Patience::Usual => self.statement_timeout.as_secs().div_ceil(u64::from(TRIES)).max(1),
            Patience::Short => SHORTEST_LOCK_S,
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

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.statement_timeout + Duration::from_secs(5)
    }

    /// Waits for all work that is under way.
    pub(crate) async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
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
    pub(crate) fn query(&self, sql: impl Into<Arc<str>>) -> Query<'static, MySql, MySqlArguments> {
        prepared(sql)
    }

    /// A statement whose text is hardly ever the same.
    pub(crate) fn once(&self, sql: impl Into<Arc<str>>) -> Query<'static, MySql, MySqlArguments> {
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

    async fn run<T, F>(&mut self, work: &F) -> Result<T, Failure>
    where
        F: for<'c> Fn(&'c mut Self) -> Work<'c, T>,
    {
        let mut pause_ms = FIRST_PAUSE_MS;
        for attempt in 1.. {
            let answer = work(self).await;
            let Err(failure) = &answer else {
                // Work that ends without committing has found that there is nothing to do.
                if self.open {
                    self.roll_back().await?;
                }
                return answer;
            };
            if failure.spares_connection() {
                self.roll_back().await?;
            }
            if !failure.is_lost_race() || attempt == TRIES {
                return answer;
            }
            tracing::debug!(
                attempt,
                code = failure.number(),
                "lost against another transaction; trying again"
            );
            sleep(Duration::from_millis(pause_ms)).await;
            pause_ms *= 3;
        }
        Err(late("the server"))
    }
}

/// A statement that is kept prepared.
pub(crate) fn prepared(sql: impl Into<Arc<str>>) -> Query<'static, MySql, MySqlArguments> {
    sqlx::query(AssertSqlSafe(sql.into()))
}

/// A statement whose text is hardly ever the same.
pub(crate) fn once(sql: impl Into<Arc<str>>) -> Query<'static, MySql, MySqlArguments> {
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

/// Connections for one kind of work: opened when they are needed, kept, and replaced when they break.
pub(crate) struct Line {
    sessions: Arc<Sessions>,
    patience: Patience,
    free: Arc<Free>,
}

struct Free {
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
}

impl Free {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    pub(crate) fn new(sessions: &Arc<Sessions>, connections: usize, patience: Patience) -> Self {
        let free = Free { permits: Semaphore::new(connections), idle: Mutex::new(Vec::new()) };
        Self { sessions: Arc::clone(sessions), patience, free: Arc::new(free) }
    }

    /// Closes the connections that nobody uses.
    pub(crate) fn hang_up(&self) {
        self.free.idle().clear();
    }

    /// Runs work on a connection of this line, to its end, whether or not the caller goes on waiting. Work that loses
    /// against another transaction is undone and done again.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Session) -> Work<'c, T> + Send + Sync + 'static,
    {
        let (sessions, free, patience) = (Arc::clone(&self.sessions), Arc::clone(&self.free), self.patience);
        let task = self.sessions.tasks.spawn(async move {
            let deadline = sessions.deadline();
            let busy = || Failure::Refused(ErrorKind::Timeout, "no connection became free".to_owned());
            let permit = timeout_at(deadline, free.permits.acquire()).await;
            let _permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
            let idle = free.idle().pop();
            let mut session = match idle {
                Some(session) => session,
                None => {
                    let connected = timeout_at(deadline, sessions.connect(patience)).await;
                    connected.map_err(|_| late("connecting"))??
                }
            };
            let answer = timeout_at(sessions.deadline(), session.run(&work)).await;
            match answer {
                Ok(Ok(value)) => {
                    free.idle().push(session);
                    Ok(value)
                }
                Ok(Err(failure)) => {
                    if failure.spares_connection() {
                        free.idle().push(session);
                    } else {
                        // What broke one has most likely broken the others.
                        free.idle().clear();
                    }
                    Err(failure)
                }
                // Nobody knows what it is doing: it is dropped, never used again.
                Err(_) => Err(late("the server")),
            }
        });
        task.await.unwrap_or_else(|_| {
            Err(Failure::Refused(ErrorKind::Unexpected, "a database call panicked".to_owned()))
        })
    }
}

pub(crate) fn late(who: &str) -> Failure {
    Failure::Refused(ErrorKind::Timeout, format!("{who} took too long to answer"))
}

/// Runs a call to its end in a task, for calls that must not be dropped half way.
#[cfg(feature = "sqlx-0_9")]
pub(crate) async fn to_its_end<T: Send + 'static>(
    sessions: &Sessions,
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let gone = || Failure::Refused(ErrorKind::Unexpected, "a database call panicked".to_owned());
    sessions.tasks.spawn(call).await.map_err(|_| gone())
}
