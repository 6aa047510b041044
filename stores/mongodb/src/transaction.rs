//! Writing on sessions: on transactions begun here, and on those that a caller already has.

use std::sync::Arc;

use mongodb::ClientSession;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Answer, Begin, Cancel, CommitError, ErrorKind, WriteOn};
use tokio::time::timeout_at;

use crate::call::Call;
use crate::error::Failure;
use crate::insert::insert_rows;
use crate::operate::cancel;
use crate::outbox::{Server, commit, late};
use crate::store::MongodbStore;

impl MongodbStore {
    /// A server that is alone takes the commands of a transaction and applies each at once: nothing would be undone.
    fn transactional(&self) -> Result<(), Failure> {
        match self.outbox().server {
            Server::Replicated => Ok(()),
            Server::Alone => {
                let detail = "this server has no transactions: it is no replica set; start it as one of a single \
                              member (mongod --replSet NAME, then rs.initiate()), or write through the store's own write";
                Err(Failure::Refused(ErrorKind::Unsupported, detail.to_owned()))
            }
        }
    }

    /// Refuses a session without an open transaction: it would write each document at once. The driver tells only by
    /// refusing to start a second one, which costs no round trip.
    async fn within(&self, session: &mut ClientSession) -> Result<(), Failure> {
        self.transactional()?;
        if session.start_transaction().await.is_err() {
            return Ok(());
        }
        session.abort_transaction().await?;
        let detail = "the session has no open transaction: start one first";
        Err(Failure::Refused(ErrorKind::InvalidInput, detail.to_owned()))
    }
}

/// On a session whose transaction the caller has started.
impl WriteOn<ClientSession> for MongodbStore {
    fn insert<'a>(&'a self, tx: &'a mut ClientSession, rows: &'a [NewRow]) -> Answer<'a, Vec<Written>> {
        Box::pin(async move {
            let insert = async {
                self.within(tx).await?;
                insert_rows(&mut Call::new(self.outbox(), Some(tx)), rows, None).await
            };
            let written = timeout_at(self.outbox().deadline(), insert).await.unwrap_or_else(|_| Err(late()));
            written.map_err(|failure| failure.into_store_error("write", self.name()))
        })
    }

    fn cancel_on<'a>(&'a self, tx: &'a mut ClientSession, request: Cancel) -> Answer<'a, Vec<EventId>> {
        Box::pin(async move {
            let cancel = async {
                self.within(tx).await?;
                cancel(&mut Call::new(self.outbox(), Some(tx)), &request).await
            };
            let ended = timeout_at(self.outbox().deadline(), cancel).await.unwrap_or_else(|_| Err(late()));
            ended.map_err(|failure| failure.into_store_error("cancel", self.name()))
        })
    }
}

impl Begin for MongodbStore {
    type Tx = ClientSession;

    fn begin(&self) -> Answer<'_, ClientSession> {
        Box::pin(async move {
            let begun = async {
                self.transactional()?;
                let outbox = Arc::clone(self.outbox());
                let begin = async move { outbox.begin().await };
                timeout_at(self.outbox().deadline(), begin).await.unwrap_or_else(|_| Err(late()))
            };
            begun.await.map_err(|failure| failure.into_store_error("begin", self.name()))
        })
    }

    async fn commit(&self, mut tx: ClientSession) -> Result<(), CommitError> {
        let deadline = self.outbox().deadline();
        let ended = self.to_its_end(async move {
            timeout_at(deadline, commit(&mut tx)).await.unwrap_or_else(|_| Err(late()))
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

    fn rollback(&self, mut tx: ClientSession) -> Answer<'_, ()> {
        Box::pin(async move {
            let deadline = self.outbox().deadline();
            let ended = self.to_its_end(async move {
                let abort = async { tx.abort_transaction().await.map_err(Failure::from) };
                timeout_at(deadline, abort).await.unwrap_or_else(|_| Err(late()))
            });
            ended.await.map_err(|failure| failure.into_store_error("roll back", self.name()))
        })
    }
}
