//! The business transaction, alone, with a bare insert into the outbox, and with our outbox.

use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::{PgConnection, PgPool};
use pillarbox_postgres::sqlx::query;

use crate::database::{MEASURED, NOTE, Work, payload};

/// Writes an order and changes an account.
pub(super) async fn business(connection: &mut PgConnection, account: i64) -> anyhow::Result<()> {
    query("INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)")
        .bind(account)
        .bind(1_i64)
        .bind(NOTE)
        .execute(&mut *connection)
        .await?;
    query("UPDATE account SET balance = balance + $2 WHERE id = $1")
        .bind(account)
        .bind(1_i64)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// The business alone.
pub(super) struct Alone(pub(super) PgPool);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.0.begin().await?;
        business(&mut tx, account).await?;
        Ok(tx.commit().await?)
    }
}

/// Whether the business is part of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Business,
    Nothing,
}

/// A bare insert of an equal row.
pub(super) struct Bare {
    pool: PgPool,
    beside: Beside,
    payload: String,
    ids: AtomicU64,
}

impl Bare {
    pub(super) fn new(pool: PgPool, beside: Beside) -> Self {
        Self { pool, beside, payload: payload(), ids: AtomicU64::new(0) }
    }
}

impl Work for Bare {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if self.beside == Beside::Business {
            business(&mut tx, account).await?;
        }
        let id = format!("{:026}", self.ids.fetch_add(1, Ordering::Relaxed));
        query(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, lane, payload, occurred_at, available_at, created_at) \
             VALUES ($1, $2, '__GLOBAL__', 64, $3, now(), now(), now())",
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
pub(super) struct Ours {
    outbox: Outbox<PostgresStore>,
    beside: Beside,
    payload: String,
    /// Events go to so many groups; none: every event for itself.
    groups: Option<i64>,
}

impl Ours {
    pub(super) fn new(outbox: &Outbox<PostgresStore>, beside: Beside) -> Self {
        Self { outbox: outbox.clone(), beside, payload: payload(), groups: None }
    }

    pub(super) fn grouped(mut self, groups: i64) -> Self {
        self.groups = Some(groups);
        self
    }
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.outbox.begin().await?;
        if self.beside == Beside::Business {
            business(&mut tx, account).await?;
        }
        let mut event = Event::text(MEASURED, self.payload.clone());
        if let Some(groups) = self.groups {
            event = event.group(format!("group {}", account % groups));
        }
        tx.write(event)?;
        Ok(tx.commit().await?)
    }
}
