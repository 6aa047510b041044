//! The listener: tells the customer, and keeps whom it has told.

use pillarbox::events::Listener;
use pillarbox::{Event, Failure};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPool;
use tokio::sync::mpsc;

/// What the event of an order says, and what the customer is told.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) order: i64,
    pub(crate) customer: String,
}

/// Where notifications go.
pub(crate) struct Notifier(mpsc::Sender<Notification>);

impl Notifier {
    pub(crate) fn new(mails: mpsc::Sender<Notification>) -> Self {
        Self(mails)
    }

    pub(crate) fn with(self, pool: PgPool) -> impl Listener {
        OrderPlaced { pool, mails: self.0 }
    }
}

struct OrderPlaced {
    pool: PgPool,
    mails: mpsc::Sender<Notification>,
}

impl Listener for OrderPlaced {
    async fn on_event(&self, event: Event) -> Result<(), Failure> {
        let notification: Notification = event.json_as().map_err(Failure::permanent)?;
        // An event may come again with the same id: the effect is kept by the id, so that it happens once.
        let kept = sqlx::query(
            "INSERT INTO notification (event_id, order_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(event.id().as_str())
        .bind(notification.order)
        .execute(&self.pool)
        .await?;
        if kept.rows_affected() == 1 {
            self.mails.send(notification).await?;
        }
        Ok(())
    }
}
