//! Transactions of one process: beginning, inserting and committing fail, take long, or are the last it does.

use std::sync::Arc;

use pillarbox::memory::MemoryTransaction;
use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{Begin, Cancel, CommitError, ErrorKind, StoreError, StoreFuture, WriteOn};

use crate::faults::Op;
use crate::history::What;
use crate::store::NodeStore;
use crate::world::World;

/// A transaction, and its number in the history.
pub(crate) struct NodeTransaction {
    pub(crate) number: usize,
    world: Arc<World>,
    inner: Option<MemoryTransaction>,
}

impl Drop for NodeTransaction {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            self.world.record(What::Undone { tx: self.number });
        }
    }
}

impl WriteOn<NodeTransaction> for NodeStore {
    fn insert<'a>(
        &'a self,
        tx: &'a mut NodeTransaction,
        rows: &'a [NewRow],
    ) -> StoreFuture<'a, Vec<Written>> {
        Box::pin(async move {
            self.call_here(Op::Insert, async move {
                let inner = tx.inner.as_mut().expect("an open transaction");
                tx.world.store.insert(inner, rows).await
            })
            .await
        })
    }

    fn cancel_on<'a>(
        &'a self,
        tx: &'a mut NodeTransaction,
        request: Cancel,
    ) -> StoreFuture<'a, Vec<EventId>> {
        let inner = tx.inner.as_mut().expect("an open transaction");
        tx.world.store.cancel_on(inner, request)
    }
}

impl Begin for NodeStore {
    type Tx = NodeTransaction;
    type Conn = NodeTransaction;

    fn conn(tx: &mut NodeTransaction) -> &mut NodeTransaction {
        tx
    }

    fn begin(&self) -> StoreFuture<'_, NodeTransaction> {
        let world = Arc::clone(self.world());
        Box::pin(self.call(Op::Begin, async move {
            let number = world.new_transaction();
            world.record(What::Began { tx: number });
            let inner = Some(world.store.begin().await?);
            Ok(NodeTransaction { number, world, inner })
        }))
    }

    async fn commit(&self, tx: NodeTransaction) -> Result<(), CommitError> {
        match self.call(Op::Commit, commit(tx)).await {
            Ok(committed) => committed,
            // The store failed before it could commit, and says so only sometimes.
            Err(error)
                if error.kind() == ErrorKind::Unavailable && self.world().draw(fastrand::Rng::bool) =>
            {
                Err(CommitError::Refused(error))
            }
            Err(error) => {
                self.world().reached("commit", "unknown");
                Err(CommitError::Unknown(error))
            }
        }
    }

    fn rollback(&self, tx: NodeTransaction) -> StoreFuture<'_, ()> {
        drop(tx);
        Box::pin(async { Ok(()) })
    }
}

async fn commit(mut tx: NodeTransaction) -> Result<Result<(), CommitError>, StoreError> {
    let inner = tx.inner.take().expect("an open transaction");
    let committed = tx.world.store.commit(inner).await;
    let tx_no = tx.number;
    tx.world.record(match &committed {
        Ok(()) => What::Committed { tx: tx_no },
        Err(_) => What::Undone { tx: tx_no },
    });
    if committed.is_ok() {
        tx.world.hint();
    }
    Ok(committed)
}
