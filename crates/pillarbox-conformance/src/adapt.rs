//! Transactions for harnesses, made from the writing ports.

use std::fmt;

use pillarbox::model::{NewRow, Written};
use pillarbox::port::{
    Begin, BlockingWriteOn, Body, CommitError, StoreError, Transact, TransactError, WriteOn,
};

use crate::harness::{Ending, Later, OpenTransaction, Transactions, WriteInTransaction};

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

impl<S: Begin + Clone> WriteInTransaction for OnBegin<S> {
    fn write(&self, rows: Vec<NewRow>, ending: Ending) -> Later<'_, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            let mut tx = self.begin().await?;
            let written = tx.insert(rows).await?;
            tx.end(ending).await?;
            Ok(written)
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

impl<S: Transact + Clone> WriteInTransaction for OnTransact<S> {
    fn write(&self, rows: Vec<NewRow>, ending: Ending) -> Later<'_, Result<Vec<Written>, StoreError>> {
        Box::pin(async move {
            let body = Insert { store: self.0.clone(), rows, ending };
            match self.0.transact(body).await {
                Ok(written) | Err(TransactError::Body(Stop::AsAsked(written))) => Ok(written),
                Err(TransactError::Body(Stop::Refused(error))) => Err(error),
                Err(TransactError::Commit(error)) => Err(refusal(error)),
                Err(TransactError::Panicked) => panic!("the transaction panicked"),
            }
        })
    }
}

struct Insert<S> {
    store: S,
    rows: Vec<NewRow>,
    ending: Ending,
}

enum Stop {
    AsAsked(Vec<Written>),
    Refused(StoreError),
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::AsAsked(_)) { "rolled back as asked" } else { "refused" })
    }
}

impl<S: Transact> Body<<S as Transact>::Tx> for Insert<S> {
    type Output = Vec<Written>;
    type Error = Stop;

    fn run(&mut self, tx: &<S as Transact>::Tx) -> Result<Vec<Written>, TransactError<Stop>> {
        let written = BlockingWriteOn::insert_blocking(&self.store, tx, &self.rows);
        let written = written.map_err(|error| TransactError::Body(Stop::Refused(error)))?;
        match self.ending {
            Ending::Commit => Ok(written),
            Ending::Rollback => Err(TransactError::Body(Stop::AsAsked(written))),
        }
    }

    fn committed(&mut self) {}

    fn failed(&mut self) {}
}

fn refusal(error: CommitError) -> StoreError {
    match error {
        CommitError::Refused(error) | CommitError::Unknown(error) => error,
    }
}
