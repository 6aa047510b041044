//! Writing with sqlx: in transactions that the store begins, and in transactions of the caller.

use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    Begin, Cancel, CommitError, ErrorKind, JoinChange, JoinChanged, Settle, Settled, StoreError, StoreFuture,
    WriteOn,
};
use pillarbox_store_kit::{ServerFailure as _, commit_error};
use sqlx::Transaction;
use sqlx::mysql::{MySql, MySqlConnection};

use crate::connection::dialect_of;
use crate::error::DriverError;
use crate::insert::insert_rows;
use crate::joins::change_join;
use crate::kind::Kind;
use crate::operate::cancel;
use crate::pipeline::Pipeline;
use crate::probe::Locking;
use crate::settle::settle_on;
use crate::sql::Sql;
use crate::store::MysqlTable;

impl<'c, K: Kind> WriteOn<Transaction<'c, MySql>> for MysqlTable<K> {
    fn insert<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        rows: &'a [NewRow],
    ) -> StoreFuture<'a, Vec<Written>> {
        Box::pin(async move {
            let sql = self.sql_on(tx, "write").await?;
            let written = insert_rows::<K>(tx, sql, rows, None).await;
            written.map_err(|failure| failure.into_store_error("write", self.0.name()))
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        request: Cancel,
    ) -> StoreFuture<'a, Vec<EventId>> {
        Box::pin(async move {
            let sql = self.sql_on(tx, "cancel").await?;
            let mut pipeline = Pipeline::in_transaction(tx);
            let cancelled = cancel(&mut pipeline, sql, &request).await;
            let cancelled = pipeline.finish(cancelled, |ids| !ids.is_empty()).await;
            cancelled.map_err(|failure| failure.into_store_error("cancel", self.0.name()))
        })
    }

    fn settle_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        request: Settle,
    ) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            needs_queue::<K>("settle", self.0.name())?;
            let sql = self.sql_on(tx, "settle").await?;
            let mut pipeline = Pipeline::in_transaction(tx);
            let settled = settle_on(&mut pipeline, sql, &request, Locking::Waits).await;
            let settled = pipeline.finish(settled, |settled| settled.held).await;
            settled.map_err(|failure| failure.into_store_error("settle", self.0.name()))
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        request: JoinChange,
    ) -> StoreFuture<'a, JoinChanged> {
        Box::pin(async move {
            needs_queue::<K>("change a join", self.0.name())?;
            let sql = self.sql_on(tx, "change a join").await?;
            let mut pipeline = Pipeline::in_transaction(tx);
            let changed = change_join(&mut pipeline, sql, &request).await;
            let changed = pipeline.finish(changed, |changed| *changed == JoinChanged::Changed).await;
            changed.map_err(|failure| failure.into_store_error("change a join", self.0.name()))
        })
    }
}

impl<K> MysqlTable<K> {
    /// The statements for the server of a user's connection, which is asked only if no call has learned the
    /// dialect before.
    async fn sql_on(
        &self,
        connection: &mut MySqlConnection,
        operation: &'static str,
    ) -> Result<&Sql, StoreError> {
        let statements = &self.0.statements;
        if let Some(sql) = statements.known() {
            return Ok(sql);
        }
        let dialect = dialect_of(connection).await;
        let dialect = dialect.map_err(|failure| failure.into_store_error(operation, self.0.name()))?;
        Ok(statements.learn(dialect))
    }
}

/// Refuses operations that need joins or sequence numbers on a table that has none.
fn needs_queue<K: Kind>(operation: &'static str, store: &str) -> Result<(), StoreError> {
    K::QUEUE.map_err(|detail| StoreError::new(ErrorKind::Unsupported, operation, store, detail))
}

impl<K: Kind> Begin for MysqlTable<K> {
    type Tx = Transaction<'static, MySql>;
    type Conn = MySqlConnection;

    fn conn(tx: &mut Self::Tx) -> &mut MySqlConnection {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, Self::Tx> {
        Box::pin(async move {
            let begun = self.0.pools.begin(self.0.pool.clone()).await;
            begun.map_err(|failure| failure.into_store_error("begin", self.0.name()))
        })
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), CommitError> {
        self.0.pools.commit(tx).await.map_err(|failure| commit_error(failure, self.0.name()))
    }

    async fn commit_with(
        &self,
        tx: Self::Tx,
        rows: &[NewRow],
        inserted: impl FnOnce() + Send,
    ) -> Result<Vec<Written>, CommitError> {
        // If this were dropped while a statement is being prepared, the driver would lose count of the
        // server's answers, and the pool its connection.
        let (store, rows) = (self.clone(), rows.to_vec());
        let added = self.0.pools.to_its_end(async move {
            let mut tx = tx;
            let written = WriteOn::insert(&store, &mut tx, &rows).await;
            (tx, written)
        });
        let refused =
            |failure: DriverError| CommitError::Refused(failure.into_store_error("write", self.0.name()));
        let (tx, written) = added.await.map_err(refused)?;
        match written {
            Ok(written) => {
                inserted();
                self.commit(tx).await.map(|()| written)
            }
            Err(refused) => {
                if let Err(error) = self.rollback(tx).await {
                    tracing::warn!(%error, "rolling back after a failed insert failed");
                }
                Err(CommitError::Refused(refused))
            }
        }
    }

    fn rollback(&self, tx: Self::Tx) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let ended = self.0.pools.roll_back(tx).await;
            ended.map_err(|failure| failure.into_store_error("roll back", self.0.name()))
        })
    }
}
