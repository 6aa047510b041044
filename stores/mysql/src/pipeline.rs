//! A pipeline of statements on an open transaction: a statement without an answer is sent with the next one.

use jiff::Timestamp;
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::query::Query;

use crate::connection::results;
use crate::error::DriverError;
use crate::row::text_time;
use crate::sql::Sql;
use crate::time::literal;

/// Marks the start of the store's work in a user's transaction, so that a failure undoes only that work.
const SAVEPOINT: &str = "SAVEPOINT pillarbox_part";
const UNDO: &str = "ROLLBACK TO SAVEPOINT pillarbox_part";

/// Statements in progress on a connection, the store's own or the user's.
pub(crate) struct Pipeline<'c> {
    connection: &'c mut MySqlConnection,
    waiting: Vec<String>,
    sent: bool,
}

impl<'c> Pipeline<'c> {
    /// Starts with `first`, which is sent ahead of all other statements.
    pub(crate) fn new(connection: &'c mut MySqlConnection, first: &str) -> Self {
        let waiting = Some(first).filter(|text| !text.is_empty()).map(str::to_owned);
        Self { connection, waiting: waiting.into_iter().collect(), sent: false }
    }

    /// Starts behind a savepoint in a user's transaction; [`Pipeline::finish`] ends it.
    #[cfg(feature = "sqlx-0_9")]
    pub(crate) fn in_transaction(connection: &'c mut MySqlConnection) -> Self {
        Self::new(connection, SAVEPOINT)
    }

    /// Queues a statement; it is sent with the next one that needs an answer.
    pub(crate) fn push(&mut self, statement: String) {
        self.waiting.push(statement);
    }

    /// Sends all queued statements and these, and returns the rows of each of these.
    pub(crate) async fn ask(&mut self, statements: &[String]) -> Result<Vec<Vec<MySqlRow>>, DriverError> {
        self.waiting.extend_from_slice(statements);
        let mut sets = self.send().await?;
        Ok(sets.split_off(sets.len().saturating_sub(statements.len())))
    }

    /// Like [`Pipeline::ask`], and also returns the given time or else the database's.
    pub(crate) async fn ask_at(
        &mut self,
        sql: &Sql,
        given: Option<Timestamp>,
        statements: &[String],
    ) -> Result<(Timestamp, Vec<Vec<MySqlRow>>), DriverError> {
        let clock = given.map_or_else(|| sql.clock.to_string(), |now| format!("SELECT {}", literal(now)));
        let mut sets = self.ask(&[&[clock], statements].concat()).await?;
        let told = sets.first().and_then(|rows| rows.first()).and_then(|row| text_time(row, 0));
        let asked = sets.split_off(1.min(sets.len()));
        Ok((given.or(told).unwrap_or_default(), asked))
    }

    /// Sends the queued statements, then runs a prepared one.
    pub(crate) async fn run(&mut self, query: Query<'_, MySql, MySqlArguments>) -> Result<(), DriverError> {
        query.execute(self.connection().await?).await?;
        Ok(())
    }

    /// The connection, after all queued statements were sent.
    pub(crate) async fn connection(&mut self) -> Result<&mut MySqlConnection, DriverError> {
        self.send().await?;
        Ok(&mut *self.connection)
    }

    async fn send(&mut self) -> Result<Vec<Vec<MySqlRow>>, DriverError> {
        if self.waiting.is_empty() {
            return Ok(Vec::new());
        }
        self.sent = true;
        let text = std::mem::take(&mut self.waiting).join("; ");
        results(self.connection, text).await
    }

    /// The statements that are still queued, to be sent with the commit.
    pub(crate) fn rest(self) -> String {
        self.waiting.join("; ")
    }

    /// Ends the store's work in a user's transaction. Undoes all of it if it failed or if `changed` says that
    /// nothing changed.
    #[cfg(feature = "sqlx-0_9")]
    pub(crate) async fn finish<T>(
        mut self,
        answer: Result<T, DriverError>,
        changed: impl FnOnce(&T) -> bool,
    ) -> Result<T, DriverError> {
        let answer = match answer {
            Ok(answer) if changed(&answer) => self.send().await.map(|_| answer),
            Ok(answer) if !self.sent => return Ok(answer),
            Ok(answer) => return results(self.connection, UNDO.to_owned()).await.map(|_| answer),
            Err(failure) => Err(failure),
        };
        if answer.is_err() && self.sent {
            // This may fail: after a deadlock or on a lost connection there is nothing left to undo.
            let _ = results(self.connection, UNDO.to_owned()).await;
        }
        answer
    }
}
