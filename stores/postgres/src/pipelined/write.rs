//! Writing on transactions of tokio-postgres that are open: those begun here, and those that a caller already has.

use deadpool_postgres::StatementCache;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Answer, Cancel, JoinChange, JoinChanged, Settle, Settled, StoreError, WriteOn};
use pillarbox_store_kit::ServerFailure as _;
use tokio_postgres::{Client, Transaction};

use super::PipelinedTransaction;
use super::call::Session;
use crate::insert::Prepared;
use crate::store::PostgresStore;

impl PostgresStore {
    async fn insert_with(&self, session: Session<'_>, rows: &[NewRow]) -> Result<Vec<Written>, StoreError> {
        let written = session.insert(&self.shared().sql, rows).await;
        written.map_err(|failure| failure.into_store_error("write", self.name()))
    }

    async fn cancel_with(&self, session: Session<'_>, request: Cancel) -> Result<Vec<EventId>, StoreError> {
        let cancelled = session.cancel(&self.shared().sql, &request).await;
        cancelled.map_err(|failure| failure.into_store_error("cancel", self.name()))
    }

    async fn settle_with(&self, session: Session<'_>, request: Settle) -> Result<Settled, StoreError> {
        self.native("settle")?;
        let settled = session.settle(&self.shared().sql, &request).await;
        settled.map_err(|failure| failure.into_store_error("settle", self.name()))
    }

    async fn change_join_with(
        &self,
        session: Session<'_>,
        request: JoinChange,
    ) -> Result<JoinChanged, StoreError> {
        self.native("change join")?;
        let changed = session.change_join(&self.shared().sql, &request).await;
        changed.map_err(|failure| failure.into_store_error("change join", self.name()))
    }

    /// A caller's client; its statements are kept if no pooler is in the way.
    async fn session<'a>(&self, client: &'a Client, cache: &'a StatementCache) -> Session<'a> {
        let kept = (self.prepared().await == Prepared::Kept).then_some(cache);
        Session { client, kept }
    }
}

/// Parses the statement each time, in the same round trip: there is no place to keep it.
///
/// ```no_run
/// # use pillarbox::{Event, Outbox};
/// # use pillarbox_postgres::{PostgresStore, tokio_postgres::Client};
/// # async fn run(mut client: Client, outbox: Outbox<PostgresStore>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// let receipt = outbox.write_on(&mut tx, [Event::text("OrderPlaced", "{}")]).await?;
/// tx.commit().await?;
/// receipt.committed();
/// # Ok(())
/// # }
/// ```
impl<'c> WriteOn<Transaction<'c>> for PostgresStore {
    fn insert<'a>(&'a self, tx: &'a mut Transaction<'c>, rows: &'a [NewRow]) -> Answer<'a, Vec<Written>> {
        Box::pin(self.insert_with(Session { client: tx.client(), kept: None }, rows))
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Transaction<'c>, request: Cancel) -> Answer<'a, Vec<EventId>> {
        Box::pin(self.cancel_with(Session { client: tx.client(), kept: None }, request))
    }

    fn settle_on<'a>(&'a self, tx: &'a mut Transaction<'c>, request: Settle) -> Answer<'a, Settled> {
        Box::pin(self.settle_with(Session { client: tx.client(), kept: None }, request))
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c>,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(self.change_join_with(Session { client: tx.client(), kept: None }, request))
    }
}

/// Keeps the statement prepared in the connection's cache.
impl<'c> WriteOn<deadpool_postgres::Transaction<'c>> for PostgresStore {
    fn insert<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        rows: &'a [NewRow],
    ) -> Answer<'a, Vec<Written>> {
        Box::pin(async move {
            let session = self.session(tx.client(), &tx.statement_cache).await;
            self.insert_with(session, rows).await
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: Cancel,
    ) -> Answer<'a, Vec<EventId>> {
        Box::pin(async move {
            let session = self.session(tx.client(), &tx.statement_cache).await;
            self.cancel_with(session, request).await
        })
    }

    fn settle_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: Settle,
    ) -> Answer<'a, Settled> {
        Box::pin(async move {
            let session = self.session(tx.client(), &tx.statement_cache).await;
            self.settle_with(session, request).await
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(async move {
            let session = self.session(tx.client(), &tx.statement_cache).await;
            self.change_join_with(session, request).await
        })
    }
}

impl WriteOn<PipelinedTransaction> for PostgresStore {
    fn insert<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        rows: &'a [NewRow],
    ) -> Answer<'a, Vec<Written>> {
        Box::pin(self.insert_with(tx.session(), rows))
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        request: Cancel,
    ) -> Answer<'a, Vec<EventId>> {
        Box::pin(self.cancel_with(tx.session(), request))
    }

    fn settle_on<'a>(&'a self, tx: &'a mut PipelinedTransaction, request: Settle) -> Answer<'a, Settled> {
        Box::pin(self.settle_with(tx.session(), request))
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(self.change_join_with(tx.session(), request))
    }
}
