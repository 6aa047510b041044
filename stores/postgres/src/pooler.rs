//! Finding out whether a pooler stands between: behind one, a session may end with each transaction.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Executor, Row};

use crate::connection::hang_up;
use crate::error::Failure;

/// One look is deceived if another client of the pooler borrows the server process just then.
const LOOKS: usize = 4;

/// What stands between the store and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// Find out with the first connection.
    #[default]
    Detect,
    /// Nothing, or a pooler that gives each client a server connection of its own (session mode).
    None,
    /// A pooler that hands out server connections per transaction: no statement is kept prepared, nobody listens.
    Transaction,
}

/// Whether two clients meet the same server process, or one client meets two.
pub(crate) async fn detect(options: &PgConnectOptions) -> Result<bool, Failure> {
    let mut first = PgConnection::connect_with(options).await?;
    let mut second = PgConnection::connect_with(options).await?;
    let mut found = false;
    for _ in 0..LOOKS {
        let before = backend(&mut first).await?;
        // A pooler that goes round two idle server connections gives the same one again if the other is borrowed meanwhile.
        let again = backend(&mut first).await?;
        second.execute("BEGIN").await?;
        let beside = backend(&mut second).await?;
        let after = backend(&mut first).await?;
        second.execute("ROLLBACK").await?;
        found |= before != again || again == beside || again != after;
    }
    hang_up(first).await;
    hang_up(second).await;
    Ok(found)
}

async fn backend(connection: &mut PgConnection) -> Result<String, Failure> {
    // In the simple protocol, which every pooler passes in one piece.
    let row = connection.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()::text")).await?;
    Ok(row.try_get(0)?)
}
