//! Transactions on the application's own pool, begun and ended in tasks: what is dropped half way stays open in the pool.

use sqlx::{Database, Pool, Transaction};

use crate::pool::{OpenSession, Pools, Session};

impl<K: OpenSession> Pools<K>
where
    <K::Session as Session>::Failure: From<sqlx::Error>,
{
    /// Begins a transaction.
    ///
    /// # Errors
    /// What the server or the pool says.
    pub async fn begin<D: Database>(
        &self,
        pool: Pool<D>,
    ) -> Result<Transaction<'static, D>, <K::Session as Session>::Failure> {
        Ok(self.to_its_end(async move { pool.begin().await }).await??)
    }

    /// Commits it.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub async fn commit<D: Database>(
        &self,
        tx: Transaction<'static, D>,
    ) -> Result<(), <K::Session as Session>::Failure> {
        Ok(self.to_its_end(async move { tx.commit().await }).await??)
    }

    /// Rolls it back.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub async fn roll_back<D: Database>(
        &self,
        tx: Transaction<'static, D>,
    ) -> Result<(), <K::Session as Session>::Failure> {
        Ok(self.to_its_end(async move { tx.rollback().await }).await??)
    }
}
