//! Detects a connection pooler, behind which a session may last for only one transaction.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Executor, Row};

use crate::connection::hang_up;
use crate::error::DriverError;

/// How many times to probe. One probe is deceived if another client of the pooler
/// borrows the server process meanwhile.
const LOOKS: usize = 4;

/// The kind of pooler between the store and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// Detect it when the first connection is opened.
    #[default]
    Detect,
    /// No pooler, or one that gives each client its own server connection (session mode).
    None,
    /// A pooler that assigns a server connection per transaction. The store keeps no statement prepared and
    /// does not listen.
    Transaction,
}

/// Whether two clients meet the same server process, or one client meets two: only a pooler does that.
pub(crate) async fn detect(options: &PgConnectOptions) -> Result<bool, DriverError> {
    let mut first = PgConnection::connect_with(options).await?;
    let mut second = PgConnection::connect_with(options).await?;
    let mut found = false;
    for _ in 0..LOOKS {
        let before = backend(&mut first).await?;
        // Asks twice in a row, because a pooler may alternate between two idle server connections. Below,
        // where the second client borrows one of them, such a pooler would give the first
        // client the same one again.
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

async fn backend(connection: &mut PgConnection) -> Result<String, DriverError> {
    // The simple protocol, because every pooler forwards it in one piece.
    let row = connection.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()::text")).await?;
    Ok(row.try_get(0)?)
}
