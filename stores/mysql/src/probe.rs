//! Probing whether SKIP LOCKED really skips locked rows: a server may accept the words and lock nothing.

use pillarbox_store_kit::{OpenSession, Purpose};
use tokio::sync::OnceCell;

use crate::config::Claiming;
use crate::connection::{Connector, Session};
use crate::dialect::Statements;
use crate::error::{DriverError, is_unknown_syntax};

/// What a SKIP LOCKED read does on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    /// It locks rows and skips rows that others have locked.
    Skips,
    /// It cannot be relied on, so work on the same rows has to wait.
    Waits,
}

impl Locking {
    /// The words that follow FOR UPDATE.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Skips => "SKIP LOCKED".to_owned(),
            Self::Waits => String::new(),
        }
    }
}

/// The result of the probe, once it has run.
#[derive(Default)]
pub(crate) struct Probe(OnceCell<Locking>);

impl Probe {
    pub(crate) async fn locking(
        &self,
        claiming: Claiming,
        connector: &Connector,
        statements: &Statements,
    ) -> Result<Locking, DriverError> {
        let found = self.0.get_or_try_init(|| async {
            match claiming {
                Claiming::SkipLocked => Ok(Locking::Skips),
                Claiming::Update => Ok(Locking::Waits),
                Claiming::Detect => detect(connector, statements).await,
            }
        });
        Ok(*found.await?)
    }
}

/// Locks a row on one connection and checks that another connection skips it.
async fn detect(connector: &Connector, statements: &Statements) -> Result<Locking, DriverError> {
    let (mut holder, mut other) =
        (connector.connect(Purpose::General).await?, connector.connect(Purpose::General).await?);
    let sql = statements.learn(holder.server.dialect);
    holder.begin().await?;
    let held = rows(&mut holder, &sql.probe_hold).await?;
    other.begin().await?;
    let skips = match rows(&mut other, &sql.probe_skip).await {
        Ok(got) => held > 0 && got == 0,
        // A server that does not know the words cannot skip rows either.
        Err(failure) if failure.number().is_some_and(is_unknown_syntax) => false,
        Err(failure) => return Err(failure),
    };
    if skips {
        return Ok(Locking::Skips);
    }
    tracing::info!("the server does not honour SKIP LOCKED: rows are claimed by updates");
    Ok(Locking::Waits)
}

async fn rows(session: &mut Session, text: &str) -> Result<usize, DriverError> {
    Ok(session.query(text).fetch_all(&mut session.connection).await?.len())
}
