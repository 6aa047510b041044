//! Writes with sqlx: in transactions begun here, and in transactions that a caller already has.

use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    Begin, Cancel, CommitError, JoinChange, JoinChanged, Settle, Settled, StoreFuture, WriteOn,
};
use pillarbox_store_kit::{ServerFailure as _, commit_error};
use sqlx::Transaction;
use sqlx::postgres::{PgConnection, Postgres};

use crate::insert::insert_rows;
use crate::joins;
use crate::kind::Kind;
use crate::operate::cancel;
use crate::settle::settle_any;
use crate::sql::Locked;
use crate::store::PostgresTable;

impl<'c, K: Kind> WriteOn<Transaction<'c, Postgres>> for PostgresTable<K> {
    fn insert<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, Postgres>,
        rows: &'a [NewRow],
    ) -> StoreFuture<'a, Vec<Written>> {
        Box::pin(async move {
            K::admit(self, rows)?;
            let prepared = self.prepared().await;
            let written = insert_rows(tx, &self.shared().sql, rows, None, prepared).await;
            written.map_err(|failure| failure.into_store_error("write", self.name()))
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, Postgres>,
        request: Cancel,
    ) -> StoreFuture<'a, Vec<EventId>> {
        Box::pin(async move {
            let prepared = self.prepared().await;
            let cancelled = cancel(tx, &self.shared().sql, &request, prepared).await;
            let cancelled = cancelled.map(|(ids, _)| ids);
            cancelled.map_err(|failure| failure.into_store_error("cancel", self.name()))
        })
    }

    fn settle_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, Postgres>,
        request: Settle,
    ) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            K::queue(self, "settle")?;
            let prepared = self.prepared().await;
            let settled = settle_any(tx, &self.shared().sql, &request, prepared, Locked::Awaited).await;
            let settled = settled.map(|(settled, _)| settled);
            settled.map_err(|failure| failure.into_store_error("settle", self.name()))
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, Postgres>,
        request: JoinChange,
    ) -> StoreFuture<'a, JoinChanged> {
        Box::pin(async move {
            K::queue(self, "change join")?;
            let prepared = self.prepared().await;
            let changed = joins::change(tx, &self.shared().sql, &request, prepared).await;
            let changed = changed.map(|(changed, _)| changed);
            changed.map_err(|failure| failure.into_store_error("change join", self.name()))
        })
    }
}

impl<K: Kind> Begin for PostgresTable<K> {
    type Tx = Transaction<'static, Postgres>;
    type Conn = PgConnection;

    fn conn(tx: &mut Self::Tx) -> &mut PgConnection {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, Self::Tx> {
        Box::pin(async move {
            let begun = self.shared().pools.begin(self.shared().pool.clone()).await;
            begun.map_err(|failure| failure.into_store_error("begin", self.name()))
        })
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), CommitError> {
        self.shared().pools.commit(tx).await.map_err(|failure| commit_error(failure, self.name()))
    }

    fn rollback(&self, tx: Self::Tx) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let ended = self.shared().pools.roll_back(tx).await;
            ended.map_err(|failure| failure.into_store_error("roll back", self.name()))
        })
    }
}
