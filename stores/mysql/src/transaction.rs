//! Writing with sqlx: on transactions begun here, and on those that a caller already has.

use pillarbox::model::{EventId, Layout, NewRow, Written};
use pillarbox::port::{
    Answer, Begin, Cancel, CommitError, ErrorKind, JoinChange, JoinChanged, Settle, Settled, Store,
    StoreError, WriteOn,
};
use pillarbox_store_kit::{ServerFailure as _, commit_error};
use sqlx::Transaction;
use sqlx::mysql::MySql;

use crate::error::Failure;
use crate::flight::Flight;
use crate::insert::insert_rows;
use crate::joins::change_join;
use crate::operate::cancel;
use crate::probe::Locking;
use crate::settle::settle_on;
use crate::store::MysqlStore;

impl<'c> WriteOn<Transaction<'c, MySql>> for MysqlStore {
    fn insert<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        rows: &'a [NewRow],
    ) -> Answer<'a, Vec<Written>> {
        Box::pin(async move {
            let written = insert_rows(tx, &self.shared().sql, rows, None).await;
            written.map_err(|failure| failure.into_store_error("write", self.name()))
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        request: Cancel,
    ) -> Answer<'a, Vec<EventId>> {
        Box::pin(async move {
            let mut flight = Flight::part(tx);
            let cancelled = cancel(&mut flight, &self.shared().sql, &request).await;
            let cancelled = flight.land(cancelled, |ids| !ids.is_empty()).await;
            cancelled.map_err(|failure| failure.into_store_error("cancel", self.name()))
        })
    }

    fn settle_on<'a>(&'a self, tx: &'a mut Transaction<'c, MySql>, request: Settle) -> Answer<'a, Settled> {
        Box::pin(async move {
            self.native("settle")?;
            let mut flight = Flight::part(tx);
            let settled = settle_on(&mut flight, &self.shared().sql, &request, Locking::Waits).await;
            let settled = flight.land(settled, |settled| settled.held).await;
            settled.map_err(|failure| failure.into_store_error("settle", self.name()))
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut Transaction<'c, MySql>,
        request: JoinChange,
    ) -> Answer<'a, JoinChanged> {
        Box::pin(async move {
            self.native("change a join")?;
            let mut flight = Flight::part(tx);
            let changed = change_join(&mut flight, &self.shared().sql, &request).await;
            let changed = flight.land(changed, |changed| *changed == JoinChanged::Changed).await;
            changed.map_err(|failure| failure.into_store_error("change a join", self.name()))
        })
    }
}

impl MysqlStore {
    /// Refuses what takes joins, or rows with numbers, where there are none.
    fn native(&self, operation: &'static str) -> Result<(), StoreError> {
        match self.facts().layout() {
            Layout::Native => Ok(()),
            Layout::Flowcatalyst => {
                let detail = "the layout flowcatalyst can't do that";
                Err(StoreError::new(ErrorKind::Unsupported, operation, self.name(), detail))
            }
        }
    }
}

impl Begin for MysqlStore {
    type Tx = Transaction<'static, MySql>;

    fn begin(&self) -> Answer<'_, Self::Tx> {
        Box::pin(async move {
            let begun = self.shared().pools.begin(self.shared().pool.clone()).await;
            begun.map_err(|failure| failure.into_store_error("begin", self.name()))
        })
    }

    async fn commit(&self, tx: Self::Tx) -> Result<(), CommitError> {
        self.shared().pools.commit(tx).await.map_err(|failure| commit_error(failure, self.name()))
    }

    async fn commit_with(
        &self,
        tx: Self::Tx,
        rows: &[NewRow],
        inserted: impl FnOnce() + Send,
    ) -> Result<Vec<Written>, CommitError> {
        // Dropped while a statement is prepared, the driver loses count of the server's answers, and the pool its connection.
        let (store, rows) = (self.clone(), rows.to_vec());
        let added = self.shared().pools.to_its_end(async move {
            let mut tx = tx;
            let written = WriteOn::insert(&store, &mut tx, &rows).await;
            (tx, written)
        });
        let refused = |failure: Failure| CommitError::Refused(failure.into_store_error("write", self.name()));
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

    fn rollback(&self, tx: Self::Tx) -> Answer<'_, ()> {
        Box::pin(async move {
            let ended = self.shared().pools.roll_back(tx).await;
            ended.map_err(|failure| failure.into_store_error("roll back", self.name()))
        })
    }
}
