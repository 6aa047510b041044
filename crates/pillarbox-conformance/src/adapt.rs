//! Transactions for harnesses, made from the writing ports.

use pillarbox::model::{EventId, NewRow, Written};
use pillarbox::port::{
    Begin, BlockingWriteOn, Body, Cancel, CommitError, JoinChange, JoinChanged, Settle, Settled, StoreError,
    Transact, TransactError, WriteOn,
};

use crate::harness::{Ending, Later, OpenTransaction, Transactions, Work, WorkInTransaction, Worked};

/// Transactions of a store that begins them itself.
pub struct OnBegin<S>(pub S);

impl<S: Begin + Clone> Transactions for OnBegin<S> {
    fn begin(&self) -> Later<'_, Result<Box<dyn OpenTransaction>, StoreError>> {
        Box::pin(async move {
            let tx = self.0.begin().await?;
            Ok(Box::new(Begun { store: self.0.clone(), tx }) as Box<dyn OpenTransaction>)
        })
    }
}

impl<S: Begin + Clone> WorkInTransaction for OnBegin<S> {
    fn work(&self, work: Work) -> Later<'_, Result<Worked, StoreError>> {
        Box::pin(async move {
            let mut tx = self.begin().await?;
            let mut worked = Worked { written: tx.insert(work.rows).await?, ..Worked::default() };
            for change in work.joins {
                worked.joins.push(tx.change_join(change).await?);
            }
            if let Some(settle) = work.settle {
                worked.settled = Some(tx.settle(settle).await?);
            }
            if let Some(cancel) = work.cancel {
                worked.cancelled = tx.cancel(cancel).await?;
            }
            tx.end(work.ending).await?;
            Ok(worked)
        })
    }
}

struct Begun<S: Begin> {
    store: S,
    tx: S::Tx,
}

impl<S: Begin> OpenTransaction for Begun<S> {
    fn insert(&mut self, rows: Vec<NewRow>) -> Later<'_, Result<Vec<Written>, StoreError>> {
        Box::pin(async move { WriteOn::insert(&self.store, &mut self.tx, &rows).await })
    }

    fn cancel(&mut self, request: Cancel) -> Later<'_, Result<Vec<EventId>, StoreError>> {
        WriteOn::cancel_on(&self.store, &mut self.tx, request)
    }

    fn settle(&mut self, request: Settle) -> Later<'_, Result<Settled, StoreError>> {
        WriteOn::settle_on(&self.store, &mut self.tx, request)
    }

    fn change_join(&mut self, request: JoinChange) -> Later<'_, Result<JoinChanged, StoreError>> {
        WriteOn::change_join_on(&self.store, &mut self.tx, request)
    }

    fn end(self: Box<Self>, ending: Ending) -> Later<'static, Result<(), StoreError>> {
        Box::pin(async move {
            match ending {
                Ending::Commit => self.store.commit(self.tx).await.map_err(refusal),
                Ending::Rollback => self.store.rollback(self.tx).await,
            }
        })
    }
}

/// Transactions of a store that runs them on a thread of its own.
pub struct OnTransact<S>(pub S);

impl<S: Transact + Clone> WorkInTransaction for OnTransact<S> {
    fn work(&self, work: Work) -> Later<'_, Result<Worked, StoreError>> {
        Box::pin(async move {
            let body = Job { store: self.0.clone(), work };
            match self.0.transact(body).await {
                Ok(worked) => Ok(worked),
                Err(TransactError::Body(Stop::AsAsked(worked))) => Ok(*worked),
                Err(TransactError::Body(Stop::Refused(error))) => Err(error),
                Err(TransactError::Commit(error)) => Err(refusal(error)),
                Err(TransactError::Panicked) => panic!("the transaction panicked"),
            }
        })
    }
}

struct Job<S> {
    store: S,
    work: Work,
}

enum Stop {
    AsAsked(Box<Worked>),
    Refused(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl<S: Transact> Job<S> {
    fn do_it(&self, tx: &<S as Transact>::Tx) -> Result<Worked, Stop> {
        let written = BlockingWriteOn::insert_blocking(&self.store, tx, &self.work.rows)?;
        let mut worked = Worked { written, ..Worked::default() };
        for change in &self.work.joins {
            worked.joins.push(BlockingWriteOn::change_join_blocking(&self.store, tx, change)?);
        }
        if let Some(settle) = &self.work.settle {
            worked.settled = Some(BlockingWriteOn::settle_blocking(&self.store, tx, settle)?);
        }
        if let Some(cancel) = &self.work.cancel {
            worked.cancelled = BlockingWriteOn::cancel_blocking(&self.store, tx, cancel)?;
        }
        match self.work.ending {
            Ending::Commit => Ok(worked),
            Ending::Rollback => Err(Stop::AsAsked(Box::new(worked))),
        }
    }
}

impl<S: Transact> Body<<S as Transact>::Tx> for Job<S> {
    type Output = Worked;
    type Error = Stop;

    fn run(&mut self, tx: &<S as Transact>::Tx) -> Result<Worked, TransactError<Stop>> {
        self.do_it(tx).map_err(TransactError::Body)
    }

    fn committed(&mut self) {}

    fn failed(&mut self) {}

    fn unknown(&mut self) {}
}

fn refusal(error: CommitError) -> StoreError {
    match error {
        CommitError::Refused(error) | CommitError::Unknown(error) => error,
    }
}
