//! Writes in open tokio-postgres transactions: begun here, or by the caller.

use deadpool_postgres::StatementCache;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Answer, Cancel, JoinChange, JoinChanged, Settle, Settled, StoreError, WriteOn};
use pillarbox_store_kit::ServerFailure as _;
use tokio_postgres::{Client, Transaction};

use super::PipelinedTransaction;
use super::call::Session;
use crate::insert::Prepared;
use crate::kind::Kind;
use crate::store::PostgresTable;

async fn insert_with<K: Kind>(
    store: &PostgresTable<K>,
    session: Session<'_>,
    rows: &[NewRow],
) -> Result<Vec<Written>, StoreError> {
    K::admit(store, rows)?;
    let written = session.insert(&store.shared().sql, rows).await;
    written.map_err(|failure| failure.into_store_error("write", store.name()))
}

async fn cancel_with<K: Kind>(
    store: &PostgresTable<K>,
    session: Session<'_>,
    request: Cancel,
) -> Result<Vec<EventId>, StoreError> {
    let cancelled = session.cancel(&store.shared().sql, &request).await;
    cancelled.map_err(|failure| failure.into_store_error("cancel", store.name()))
}

async fn settle_with<K: Kind>(
    store: &PostgresTable<K>,
    session: Session<'_>,
    request: Settle,
) -> Result<Settled, StoreError> {
    K::queue(store, "settle")?;
    let settled = session.settle(&store.shared().sql, &request).await;
    settled.map_err(|failure| failure.into_store_error("settle", store.name()))
}

async fn change_join_with<K: Kind>(
    store: &PostgresTable<K>,
    session: Session<'_>,
    request: JoinChange,
) -> Result<JoinChanged, StoreError> {
    K::queue(store, "change join")?;
    let changed = session.change_join(&store.shared().sql, &request).await;
    changed.map_err(|failure| failure.into_store_error("change join", store.name()))
}

/// A session on a caller's client, which keeps statements prepared unless a pooler is in between.
async fn kept<'a, K: Kind>(
    store: &PostgresTable<K>,
    client: &'a Client,
    cache: &'a StatementCache,
) -> Session<'a> {
    let kept = (store.prepared().await == Prepared::Kept).then_some(cache);
    Session { client, kept }
}

/// The server parses the statement each time, in the same round trip: a plain client has no statement cache.
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
impl<'c, K: Kind> WriteOn<Transaction<'c>> for PostgresTable<K> {
    fn insert<'a>(&'a self, tx: &'a mut Transaction<'c>, rows: &'a [NewRow]) -> Answer<'a, Vec<Written>> {
        Box::pin(insert_with(self, Session { client: tx.client(), kept: None }, rows))
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut Transaction<'c>, request: Cancel) -> Answer<'a, Vec<EventId>> {
        Box::pin(cancel_with(self, Session { client: tx.client(), kept: None }, request))
    }

    fn settle_on<'a>(&'a self, tx: &'a mut Transaction<'c>, request: Settle) -> Answer<'a, Settled> {
        Box::pin(settle_with(self, Session { client: tx.client(), kept: None }, request))
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c>,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(change_join_with(self, Session { client: tx.client(), kept: None }, request))
    }
}

/// Keeps the statement prepared in the connection's cache.
impl<'c, K: Kind> WriteOn<deadpool_postgres::Transaction<'c>> for PostgresTable<K> {
    fn insert<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        rows: &'a [NewRow],
    ) -> Answer<'a, Vec<Written>> {
        Box::pin(async move {
            let session = kept(self, tx.client(), &tx.statement_cache).await;
            insert_with(self, session, rows).await
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: Cancel,
    ) -> Answer<'a, Vec<EventId>> {
        Box::pin(async move {
            let session = kept(self, tx.client(), &tx.statement_cache).await;
            cancel_with(self, session, request).await
        })
    }

    fn settle_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: Settle,
    ) -> Answer<'a, Settled> {
        Box::pin(async move {
            let session = kept(self, tx.client(), &tx.statement_cache).await;
            settle_with(self, session, request).await
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut deadpool_postgres::Transaction<'c>,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(async move {
            let session = kept(self, tx.client(), &tx.statement_cache).await;
            change_join_with(self, session, request).await
        })
    }
}

impl<K: Kind> WriteOn<PipelinedTransaction> for PostgresTable<K> {
    fn insert<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        rows: &'a [NewRow],
    ) -> Answer<'a, Vec<Written>> {
        Box::pin(insert_with(self, tx.session(), rows))
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        request: Cancel,
    ) -> Answer<'a, Vec<EventId>> {
        Box::pin(cancel_with(self, tx.session(), request))
    }

    fn settle_on<'a>(&'a self, tx: &'a mut PipelinedTransaction, request: Settle) -> Answer<'a, Settled> {
        Box::pin(settle_with(self, tx.session(), request))
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut PipelinedTransaction,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(change_join_with(self, tx.session(), request))
    }
}
