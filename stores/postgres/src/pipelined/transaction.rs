//! A transaction that owns its connection, and never returns it to the pool while it is open.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use deadpool_postgres::{ClientWrapper, Object};
use pillarbox::model::{NewRow, Written};
use pillarbox_store_kit::{Pools, Refused};
use tokio::time::timeout_at;

use super::call::Session;
use super::commit::{PipelinedCommit, Unconfirmed, insert_and_commit};
use crate::connection::Connector;
use crate::error::DriverError;
use crate::insert::Prepared;
use crate::sql::Sql;

/// An open tokio-postgres transaction, on a connection of the pool.
///
/// If it is dropped unfinished, it is rolled back before the connection returns to the pool. If the rollback
/// fails, the connection is closed.
///
/// Run statements on the client that it derefs to. Leave BEGIN, COMMIT and ROLLBACK to the
/// outbox; you may use savepoints.
pub struct PipelinedTransaction {
    /// `None` once the transaction has ended.
    object: Option<Object>,
    pools: Arc<Pools<Connector>>,
    prepared: Prepared,
}

impl PipelinedTransaction {
    /// Waits for the answer to BEGIN: if the server refused it, each statement after
    /// it would commit by itself.
    pub(super) async fn begin(
        object: Object,
        pools: &Arc<Pools<Connector>>,
        prepared: Prepared,
    ) -> Result<Self, DriverError> {
        let tx = Self { object: Some(object), pools: Arc::clone(pools), prepared };
        tx.bounded("BEGIN").await?;
        Ok(tx)
    }

    pub(super) fn session(&self) -> Session<'_> {
        let kept = (self.prepared == Prepared::Kept).then_some(&*self.statement_cache);
        Session { client: self, kept }
    }

    pub(super) async fn commit(
        mut self,
        sql: &Sql,
        rows: &[NewRow],
        inserted: impl FnOnce() + Send,
    ) -> Result<Vec<Written>, Unconfirmed> {
        let ended =
            timeout_at(self.pools.deadline(), insert_and_commit(self.session(), sql, rows, inserted)).await;
        match ended {
            Ok(PipelinedCommit { result, closed: true }) => {
                self.give_back();
                result
            }
            // A refused COMMIT may have left the transaction open; dropping `self` rolls it back.
            Ok(PipelinedCommit { result, closed: false }) => result,
            Err(_) => {
                self.close();
                Err(Unconfirmed::Unknown(Refused::late("the server").into()))
            }
        }
    }

    pub(super) async fn rollback(mut self) -> Result<(), DriverError> {
        self.bounded("ROLLBACK").await?;
        self.give_back();
        Ok(())
    }

    async fn bounded(&self, sql: &str) -> Result<(), DriverError> {
        let answer = timeout_at(self.pools.deadline(), self.batch_execute(sql)).await;
        Ok(answer.map_err(|_| Refused::late("the server"))??)
    }

    fn give_back(&mut self) {
        drop(self.object.take());
    }

    fn close(&mut self) {
        drop(Open(self.object.take()));
    }
}

/// A connection that may be in a transaction. Dropping it closes the connection and removes it from the pool.
struct Open(Option<Object>);

impl Open {
    async fn roll_back(mut self, pools: &Pools<Connector>) {
        let Some(object) = &self.0 else { return };
        let answer = timeout_at(pools.deadline(), object.batch_execute("ROLLBACK")).await;
        if matches!(answer, Ok(Ok(()))) {
            drop(self.0.take());
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.0.take().map(Object::take));
    }
}

impl Drop for PipelinedTransaction {
    fn drop(&mut self) {
        let Some(object) = self.object.take() else { return };
        let (open, pools) = (Open(Some(object)), Arc::clone(&self.pools));
        // Without a runtime the task is dropped, and the connection is closed.
        self.pools.spawn(async move { open.roll_back(&pools).await });
    }
}

impl Deref for PipelinedTransaction {
    type Target = ClientWrapper;

    #[expect(
        clippy::expect_used,
        reason = "commit and rollback consume the transaction, so it is there until then"
    )]
    fn deref(&self) -> &ClientWrapper {
        self.object.as_ref().expect("a transaction that is still open")
    }
}

impl fmt::Debug for PipelinedTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PipelinedTransaction")
    }
}
