//! The business transaction, alone, with a bare insert into the outbox, and with our outbox.

use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox::{Event, Outbox};
use pillarbox_mysql::MysqlStore;
use pillarbox_mysql::sqlx::mysql::{MySqlConnection, MySqlPool};
use pillarbox_mysql::sqlx::query;

use super::fixture::Fixture;
use crate::database::end_to_end::Business;
use crate::database::{MEASURED, NOTE, Work, payload};

impl Business for Fixture {
    type Alone = Alone;
    type Bare = Bare;
    type Ours = Ours;

    async fn alone(&self, writers: u32) -> anyhow::Result<Alone> {
        Ok(Alone(self.pool(writers).await?))
    }

    async fn bare(&self, writers: u32) -> anyhow::Result<Bare> {
        Ok(Bare { pool: self.pool(writers).await?, payload: payload(), ids: AtomicU64::new(0) })
    }

    fn ours(&self, outbox: &Outbox<MysqlStore>) -> anyhow::Result<Ours> {
        Ok(Ours { outbox: outbox.clone(), payload: payload() })
    }
}

/// Writes an order and changes an account.
async fn business(connection: &mut MySqlConnection, account: i64) -> anyhow::Result<()> {
    query("INSERT INTO orders (account_id, amount, note) VALUES (?, ?, ?)")
        .bind(account)
        .bind(1_i64)
        .bind(NOTE)
        .execute(&mut *connection)
        .await?;
    query("UPDATE account SET balance = balance + ? WHERE id = ?")
        .bind(1_i64)
        .bind(account)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The business alone.
pub(crate) struct Alone(MySqlPool);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        business(&mut tx, account).await?;
        Ok(tx.commit().await?)
    }
}

/// A bare insert of an equal row.
pub(crate) struct Bare {
    pool: MySqlPool,
    payload: String,
    ids: AtomicU64,
}

impl Work for Bare {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        business(&mut tx, account).await?;
        let id = format!("{:026}", self.ids.fetch_add(1, Ordering::Relaxed));
        query(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, lane, payload, occurred_at, available_at, created_at) \
             VALUES (?, ?, '__GLOBAL__', 64, ?, utc_timestamp(6), utc_timestamp(6), utc_timestamp(6))",
        )
        .bind(id)
        .bind(MEASURED)
        .bind(&self.payload)
        .execute(&mut *tx)
        .await?;
        Ok(tx.commit().await?)
    }
}

/// Our outbox.
pub(crate) struct Ours {
    outbox: Outbox<MysqlStore>,
    payload: String,
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.outbox.begin().await?;
        business(&mut tx, account).await?;
        tx.write(Event::text(MEASURED, self.payload.clone()))?;
        Ok(tx.commit().await?)
    }
}
