//! Writing in transactions, begun by the store or by the caller.

use std::sync::Arc;

use mongodb::ClientSession;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    Begin, Cancel, CommitError, ErrorKind, JoinChange, JoinChanged, Settle, Settled, StoreError, StoreFuture,
    WriteOn,
};
use tokio::time::timeout_at;

use crate::allocator;
use crate::call::Call;
use crate::done::Caution;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::outbox::{Operation, Server, late};
use crate::store::MongodbTable;

impl<K> MongodbTable<K> {
    /// Refuses transactions outside of a replica set. Such a server accepts the commands of a transaction but
    /// applies each at once, so a rollback would undo nothing.
    fn transactional(&self) -> Result<(), DriverError> {
        match self.outbox().server {
            Server::Replicated => Ok(()),
            Server::Alone => {
                let detail = "this server has no transactions: it is not a replica set; start it as one with a single \
                              member (mongod --replSet NAME, then rs.initiate()), or write through the store's own write";
                Err(DriverError::Refused(ErrorKind::Unsupported, detail.to_owned()))
            }
        }
    }

    /// Runs work on a session until the deadline of a call, and names the operation in its error.
    async fn bounded<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, StoreError> {
        let ended = timeout_at(self.outbox().deadline(), work).await.unwrap_or_else(|_| Err(late()));
        ended.map_err(|failure| failure.into_store_error(operation, self.name()))
    }

    /// Refuses a session without an open transaction, which would write each document at once. The driver
    /// shows the state only by refusing to start a second transaction; asking costs no round trip.
    async fn within(&self, session: &mut ClientSession) -> Result<(), DriverError> {
        self.transactional()?;
        if session.start_transaction().await.is_err() {
            return Ok(());
        }
        session.abort_transaction().await?;
        let detail = "the session has no open transaction: start one first";
        Err(DriverError::Refused(ErrorKind::InvalidInput, detail.to_owned()))
    }

    /// Runs work in the open transaction of a caller's session.
    async fn run_on<R: ?Sized, T>(
        &self,
        operation: &'static str,
        tx: &mut ClientSession,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, StoreError> {
        let work = async {
            self.within(tx).await?;
            work(&mut Call::new(self.outbox(), Some(tx)), request).await
        };
        self.bounded(operation, work).await
    }
}

/// Writes in a transaction that the caller has started.
impl<K: Kind> WriteOn<ClientSession> for MongodbTable<K> {
    fn insert<'a>(&'a self, tx: &'a mut ClientSession, rows: &'a [NewRow]) -> StoreFuture<'a, Vec<Written>> {
        Box::pin(self.run_on("write", tx, rows, |call, rows| K::insert(call, rows, None)))
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut ClientSession, request: Cancel) -> StoreFuture<'a, Vec<EventId>> {
        Box::pin(async move { self.run_on("cancel", tx, &request, K::cancel).await })
    }

    fn settle_on<'a>(&'a self, tx: &'a mut ClientSession, request: Settle) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            self.run_on("settle", tx, &request, |call, request| K::settle(call, request, Caution::LookFirst))
                .await
        })
    }

    fn change_join_on<'a>(
        &'a self,
        tx: &'a mut ClientSession,
        request: JoinChange,
    ) -> StoreFuture<'a, JoinChanged> {
        Box::pin(async move { self.run_on("change a join", tx, &request, K::change_join).await })
    }
}

impl<K: Kind> Begin for MongodbTable<K> {
    type Tx = ClientSession;
    type Conn = ClientSession;

    fn conn(tx: &mut ClientSession) -> &mut ClientSession {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, ClientSession> {
        Box::pin(async move {
            let begun = async {
                self.transactional()?;
                let session = self.outbox().begin().await?;
                allocator::begun(self.outbox(), session.id().to_string());
                Ok(session)
            };
            self.bounded("begin", begun).await
        })
    }

    async fn commit(&self, mut tx: ClientSession) -> Result<(), CommitError> {
        let (outbox, deadline) = (Arc::clone(self.outbox()), self.outbox().deadline());
        let ended = self.to_its_end(async move {
            let ended = outbox.commit(&mut tx, deadline).await;
            // If the commit's answer was lost, its rows may still appear: the draws stay open until they
            // expire.
            if !matches!(ended, Err(DriverError::Open(_))) {
                allocator::over(&outbox, &tx.id().to_string());
            }
            ended
        });
        match ended.await {
            Ok(()) => Ok(()),
            Err(failure) => {
                let open = failure.leaves_commit_open();
                let error = failure.into_store_error("commit", self.name());
                Err(if open { CommitError::Unknown(error) } else { CommitError::Refused(error) })
            }
        }
    }

    fn rollback(&self, mut tx: ClientSession) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (outbox, deadline) = (Arc::clone(self.outbox()), self.outbox().deadline());
            let ended = self.to_its_end(async move {
                // Whatever the answer, this transaction can no longer be committed.
                allocator::over(&outbox, &tx.id().to_string());
                let abort = async { tx.abort_transaction().await.map_err(DriverError::from) };
                let ended = timeout_at(deadline, abort).await.unwrap_or_else(|_| Err(late()));
                if ended.is_err() {
                    outbox.release(&tx).await;
                }
                ended
            });
            ended.await.map_err(|failure| failure.into_store_error("roll back", self.name()))
        })
    }
}
