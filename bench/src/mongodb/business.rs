//! What a business writes in a transaction, alone, with a bare insert of an event, and with our outbox.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pillarbox::{Event, Outbox};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::bson::{Document, doc};
use pillarbox_mongodb::mongodb::options::{ReadConcern, WriteConcern};
use pillarbox_mongodb::mongodb::{ClientSession, Database as Documents};

use super::fixture::Fixture;
use crate::database::end_to_end::Business;
use crate::database::{MEASURED, NOTE, Work, payload};

impl Business for Fixture {
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
        Ok(Ours { outbox: outbox.clone(), payload: payload() })
    }
}

/// Writes an order and changes an account.
async fn business(database: &Documents, tx: &mut ClientSession, account: i64) -> anyhow::Result<()> {
    let order = doc! { "account_id": account, "amount": 1_i64, "note": NOTE };
    database.collection::<Document>("orders").insert_one(order).session(&mut *tx).await?;
    let change = doc! { "$inc": { "balance": 1_i64 } };
    let accounts = database.collection::<Document>("account");
    accounts.update_one(doc! { "_id": account }, change).session(&mut *tx).await?;
    Ok(())
}

/// A transaction as our outbox begins it.
async fn begin(database: &Documents) -> anyhow::Result<ClientSession> {
    let mut session = database.client().start_session().await?;
    let start = session.start_transaction().read_concern(ReadConcern::snapshot());
    start.write_concern(WriteConcern::majority()).await?;
    Ok(session)
}

/// The business alone.
pub(crate) struct Alone(Documents);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = begin(&self.0).await?;
        business(&self.0, &mut tx, account).await?;
        Ok(tx.commit_transaction().await?)
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
        let mut tx = begin(&self.database).await?;
        business(&self.database, &mut tx, account).await?;
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
        Fixture::events(&self.database).insert_one(event).session(&mut tx).await?;
        Ok(tx.commit_transaction().await?)
    }
}

/// Our outbox.
pub(crate) struct Ours {
    outbox: Outbox<MongodbStore>,
    payload: String,
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.outbox.begin().await?;
        business(self.outbox.store().database(), &mut tx, account).await?;
        tx.write(Event::text(MEASURED, self.payload.clone()))?;
        tx.commit().await?;
        Ok(())
    }
}
