//! The transaction context: gives code access to the current transaction without passing it down.

use std::any::Any;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Transaction, WriteError, Writer};
use crate::model::IntoEvents;
use crate::port::{Begin, CommitError, StoreError};

tokio::task_local! {
    static CURRENT: Arc<dyn Any + Send + Sync>;
}

/// Gives access to the current transaction.
pub trait TransactionContext<S: Begin>: Send + Sync {
    /// Whether a transaction is current and has not ended.
    fn is_active(&self) -> bool;

    /// Locks and returns the current transaction; waits while other code holds the lock.
    ///
    /// Fails immediately with [`WriteError::NoTransaction`] if there is none.
    fn current(&self) -> impl Future<Output = Result<Current<S>, WriteError>> + Send;

    /// Registers a callback that runs after the current transaction commits.
    fn after_commit(
        &self,
        callback: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = Result<(), WriteError>> + Send {
        async move {
            self.current().await?.after_commit(callback);
            Ok(())
        }
    }

    /// Registers a callback that runs after the current transaction is rolled back or dropped.
    fn after_rollback(
        &self,
        callback: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = Result<(), WriteError>> + Send {
        async move {
            self.current().await?.after_rollback(callback);
            Ok(())
        }
    }

    /// Writes one event or several on the current transaction, like [`Transaction::write`].
    fn write<M, E: IntoEvents<M> + Send>(
        &self,
        events: E,
    ) -> impl Future<Output = Result<E::Ids, WriteError>> + Send {
        async move { self.current().await?.write(events) }
    }
}

/// The current transaction, locked until this guard is dropped. It is open for that long.
///
/// With the feature `axum` it is an extractor: a handler below a
/// [`TransactionLayer`](super::TransactionLayer) takes `mut tx: Current<PostgresStore>`.
pub struct Current<S: Begin>(OwnedMutexGuard<Option<Transaction<S>>>);

impl<S: Begin> Deref for Current<S> {
    type Target = Transaction<S>;

    #[expect(clippy::expect_used, reason = "a scope waits for this guard before it ends the transaction")]
    fn deref(&self) -> &Transaction<S> {
        self.0.as_ref().expect("a transaction that is still open")
    }
}

impl<S: Begin> DerefMut for Current<S> {
    #[expect(clippy::expect_used, reason = "a scope waits for this guard before it ends the transaction")]
    fn deref_mut(&mut self) -> &mut Transaction<S> {
        self.0.as_mut().expect("a transaction that is still open")
    }
}

/// The transaction of the request, as an extractor. Without a [`TransactionLayer`](super::TransactionLayer) around the
/// handler the answer is 500.
#[cfg(feature = "axum")]
impl<S: Begin, State: Sync> axum_core::extract::FromRequestParts<State> for Current<S> {
    type Rejection = http::StatusCode;

    async fn from_request_parts(_: &mut http::request::Parts, _: &State) -> Result<Self, http::StatusCode> {
        TaskContext.current().await.map_err(|error: WriteError| {
            tracing::error!(%error, "a handler takes a transaction, but no transaction layer is around it");
            http::StatusCode::INTERNAL_SERVER_ERROR
        })
    }
}

/// The transaction context of the current task, set by [`Writer::scope`].
///
/// Spawned tasks do not inherit it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TaskContext;

impl TaskContext {
    fn scope<S: Begin>() -> Option<Arc<Mutex<Option<Transaction<S>>>>> {
        let any = CURRENT.try_with(Arc::clone).ok()?;
        any.downcast().ok()
    }
}

impl<S: Begin> TransactionContext<S> for TaskContext {
    fn is_active(&self) -> bool {
        Self::scope::<S>().is_some_and(|scope| scope.try_lock().map_or(true, |tx| tx.is_some()))
    }

    async fn current(&self) -> Result<Current<S>, WriteError> {
        let scope = Self::scope::<S>().ok_or(WriteError::NoTransaction)?;
        let current = Current(scope.lock_owned().await);
        if current.0.is_none() {
            return Err(WriteError::NoTransaction);
        }
        Ok(current)
    }
}

/// Reasons why a scope did not commit.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError<E> {
    /// The store failed to open the transaction.
    #[error(transparent)]
    Begin(StoreError),
    /// The body returned an error, and the transaction was rolled back.
    #[error("the transaction was rolled back")]
    Body(E),
    /// The commit failed, or its outcome is unknown.
    #[error(transparent)]
    Commit(CommitError),
}

impl<S: Begin> Writer<S> {
    /// Runs a future with a transaction as its context: commits if it returns `Ok`, rolls
    /// back if it returns `Err`.
    pub async fn scope<R, E>(&self, body: impl Future<Output = Result<R, E>>) -> Result<R, ScopeError<E>> {
        let tx = self.begin().await.map_err(ScopeError::Begin)?;
        let scope = Arc::new(Mutex::new(Some(tx)));
        let result = CURRENT.scope(Arc::clone(&scope) as Arc<dyn Any + Send + Sync>, body).await;
        // Taking the transaction ends the context: a clone that outlives the body finds no transaction.
        let tx = scope.lock_owned().await.take();
        match (result, tx) {
            (Ok(output), Some(tx)) => tx.commit().await.map(|()| output).map_err(ScopeError::Commit),
            (Ok(output), None) => Ok(output),
            (Err(error), tx) => {
                if let Some(tx) = tx
                    && let Err(error) = tx.rollback().await
                {
                    tracing::warn!(%error, "rolling back failed");
                }
                Err(ScopeError::Body(error))
            }
        }
    }
}
