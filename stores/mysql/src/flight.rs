//! Statements of a transaction that is open, sent together: those that answer nothing wait for one that does.

use jiff::Timestamp;
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::query::Query;

use crate::connection::results;
use crate::error::Failure;
use crate::row::text_time;
use crate::sql::Sql;
use crate::time::literal;

/// A part of the user's transaction, which is taken back alone where it fails.
const SAVEPOINT: &str = "SAVEPOINT pillarbox_part";
const UNDO: &str = "ROLLBACK TO SAVEPOINT pillarbox_part";

/// A change under way, on a connection of the store's own or of the user's.
pub(crate) struct Flight<'c> {
    connection: &'c mut MySqlConnection,
    waiting: Vec<String>,
    sent: bool,
}

impl<'c> Flight<'c> {
    /// One whose first statements go ahead of all others.
    pub(crate) fn new(connection: &'c mut MySqlConnection, first: &str) -> Self {
        let waiting = Some(first).filter(|text| !text.is_empty()).map(str::to_owned);
        Self { connection, waiting: waiting.into_iter().collect(), sent: false }
    }

    /// One on a transaction of the user's; see [`Flight::land`].
    #[cfg(feature = "sqlx-0_9")]
    pub(crate) fn part(connection: &'c mut MySqlConnection) -> Self {
        Self::new(connection, SAVEPOINT)
    }

    /// Sends a statement with the next that is asked.
    pub(crate) fn push(&mut self, statement: String) {
        self.waiting.push(statement);
    }

    /// Asks statements, and answers the rows of each.
    pub(crate) async fn ask(&mut self, statements: &[String]) -> Result<Vec<Vec<MySqlRow>>, Failure> {
        self.waiting.extend_from_slice(statements);
        let mut sets = self.send().await?;
        Ok(sets.split_off(sets.len().saturating_sub(statements.len())))
    }

    /// Asks statements together with the time.
    pub(crate) async fn ask_at(
        &mut self,
        sql: &Sql,
        given: Option<Timestamp>,
        statements: &[String],
    ) -> Result<(Timestamp, Vec<Vec<MySqlRow>>), Failure> {
        let clock = given.map_or_else(|| sql.clock.to_string(), |now| format!("SELECT {}", literal(now)));
        let mut sets = self.ask(&[&[clock], statements].concat()).await?;
        let told = sets.first().and_then(|rows| rows.first()).and_then(|row| text_time(row, 0));
        let asked = sets.split_off(1.min(sets.len()));
        Ok((given.or(told).unwrap_or_default(), asked))
    }

    /// Runs a prepared statement, after all that waits.
    pub(crate) async fn run(&mut self, query: Query<'_, MySql, MySqlArguments>) -> Result<(), Failure> {
        query.execute(self.connection().await?).await?;
        Ok(())
    }

    /// The connection, once all that waits was sent.
    pub(crate) async fn connection(&mut self) -> Result<&mut MySqlConnection, Failure> {
        self.send().await?;
        Ok(&mut *self.connection)
    }

    async fn send(&mut self) -> Result<Vec<Vec<MySqlRow>>, Failure> {
        if self.waiting.is_empty() {
            return Ok(Vec::new());
        }
        self.sent = true;
        let text = std::mem::take(&mut self.waiting).join("; ");
        results(self.connection, text).await
    }

    /// What still waits, for whoever commits.
    pub(crate) fn rest(self) -> String {
        self.waiting.join("; ")
    }

    /// Ends a part of the user's transaction: whole, or not at all where it failed or `changed` nothing.
    #[cfg(feature = "sqlx-0_9")]
    pub(crate) async fn land<T>(
        mut self,
        answer: Result<T, Failure>,
        changed: impl FnOnce(&T) -> bool,
    ) -> Result<T, Failure> {
        let answer = match answer {
            Ok(answer) if changed(&answer) => self.send().await.map(|_| answer),
            Ok(answer) if !self.sent => return Ok(answer),
            Ok(answer) => return results(self.connection, UNDO.to_owned()).await.map(|_| answer),
            Err(failure) => Err(failure),
        };
        if answer.is_err() && self.sent {
            // After a deadlock, or on a connection that is gone, there is nothing left to take back.
            let _ = results(self.connection, UNDO.to_owned()).await;
        }
        answer
    }
}
