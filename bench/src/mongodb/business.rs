//! What a business writes, alone, with a bare insert of an event, and with our outbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pillarbox::model::{NewRow, Placement};
use pillarbox::port::{Store, Write};
use pillarbox::{Event, Outbox};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::Database as Documents;
use pillarbox_mongodb::mongodb::bson::{Document, doc};

use super::ground::Ground;
use crate::database::end_to_end::Business;
use crate::database::{MEASURED, NOTE, Work, payload};

impl Business for Ground {
    type Alone = Alone;
    type Bare = Bare;
    type Ours = Ours;

    async fn alone(&self, writers: u32) -> anyhow::Result<Alone> {
        Ok(Alone(self.database(writers)?))
    }

    async fn bare(&self, writers: u32) -> anyhow::Result<Bare> {
        Ok(Bare { database: self.database(writers)?, payload: payload(), numbers: AtomicI64::new(1) })
    }

    fn ours(&self, outbox: &Outbox<MongodbStore>) -> anyhow::Result<Ours> {
        let store = Arc::clone(outbox.store());
        Ok(Ours { database: store.database().clone(), store, payload: payload() })
    }
}

/// Writes an order and changes an account.
async fn business(database: &Documents, account: i64) -> anyhow::Result<()> {
    let order = doc! { "account_id": account, "amount": 1_i64, "note": NOTE };
    database.collection::<Document>("orders").insert_one(order).await?;
    let change = doc! { "$inc": { "balance": 1_i64 } };
    database.collection::<Document>("account").update_one(doc! { "_id": account }, change).await?;
    Ok(())
}

/// The business alone.
pub(crate) struct Alone(Documents);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        business(&self.0, account).await
    }
}

/// A bare insert of an equal document; its number is drawn here, which no two programs could do.
pub(crate) struct Bare {
    database: Documents,
    payload: String,
    numbers: AtomicI64,
}

impl Work for Bare {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        business(&self.database, account).await?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())?;
        let event = doc! {
            "_id": format!("{number:026}"),
            "seq": number,
            "slot": 64,
            "home": 0,
            "status": 0,
            "attempts": 0,
            "created_at": now,
            "available_at": now,
            "occurred_at": now,
            "event_type": MEASURED,
            "aggregate_type": "__GLOBAL__",
            "payload": &self.payload,
        };
        Ground::events(&self.database).insert_one(event).await?;
        Ok(())
    }
}

/// Our outbox.
pub(crate) struct Ours {
    database: Documents,
    store: Arc<MongodbStore>,
    payload: String,
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        business(&self.database, account).await?;
        let event = Event::text(MEASURED, self.payload.clone()).build()?;
        let rows = vec![NewRow { event, placement: Placement::Slot }];
        self.store.write(Write { rows, now: None }).await?;
        Ok(())
    }
}
