//! Transactions on the application's own pool, run in tasks so that a dropped call leaves none open.

use sqlx::{Database, Pool, Transaction};

use crate::pool::{OpenSession, Pools, Session};

impl<K: OpenSession> Pools<K>
where
    <K::Session as Session>::Error: From<sqlx::Error>,
{
    /// Begins a transaction.
    ///
    /// # Errors
    /// If the pool or the server fails.
    pub async fn begin<D: Database>(
        &self,
        pool: Pool<D>,
    ) -> Result<Transaction<'static, D>, <K::Session as Session>::Error> {
        Ok(self.to_its_end(async move { pool.begin().await }).await??)
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// If the server refuses, or does not answer.
    pub async fn commit<D: Database>(
        &self,
        tx: Transaction<'static, D>,
    ) -> Result<(), <K::Session as Session>::Error> {
        Ok(self.to_its_end(async move { tx.commit().await }).await??)
    }

    /// Rolls a transaction back.
    ///
    /// # Errors
    /// If the server refuses, or does not answer.
    pub async fn roll_back<D: Database>(
        &self,
        tx: Transaction<'static, D>,
    ) -> Result<(), <K::Session as Session>::Error> {
        Ok(self.to_its_end(async move { tx.rollback().await }).await??)
    }
}
