//! Writes in open tokio-postgres transactions: begun here, or by the caller.

use deadpool_postgres::StatementCache;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Cancel, JoinChange, JoinChanged, Settle, Settled, StoreError, StoreFuture, WriteOn};
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

/// Implements the port for a type of transaction; the last argument opens a session on it.
macro_rules! write_on {
    ($(#[$doc:meta])* $tx:ty $(, $life:lifetime)?, |$store:ident, $on:ident| $session:expr) => {
        $(#[$doc])*
        impl<$($life,)? K: Kind> WriteOn<$tx> for PostgresTable<K> {
            fn insert<'a>(&'a self, $on: &'a mut $tx, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
                let $store = self;
                Box::pin(async move { insert_with($store, $session, rows).await })
            }

            fn cancel_on<'a>(&'a self, $on: &'a mut $tx, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
                let $store = self;
                Box::pin(async move { cancel_with($store, $session, request).await })
            }

            fn settle_on<'a>(&'a self, $on: &'a mut $tx, request: Settle) -> StoreFuture<'a, Settled> {
                let $store = self;
                Box::pin(async move { settle_with($store, $session, request).await })
            }

            fn change_join_on<'a>(
                &'a self,
                $on: &'a mut $tx,
                request: JoinChange,
            ) -> StoreFuture<'a, JoinChanged> {
                let $store = self;
                Box::pin(async move { change_join_with($store, $session, request).await })
            }
        }
    };
}

write_on!(
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
    Transaction<'c>, 'c, |store, tx| Session { client: tx.client(), kept: None }
);

write_on!(
    /// Keeps the statement prepared in the connection's cache.
    deadpool_postgres::Transaction<'c>, 'c, |store, tx| kept(store, tx.client(), &tx.statement_cache).await
);

write_on!(PipelinedTransaction, |store, tx| tx.session());
