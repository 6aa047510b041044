//! The MongoDB store in the flowcatalyst layout, as it is tried: a database of its own for each outbox.

use std::sync::Arc;

use jiff::Timestamp;
use pillarbox::port::{Admin, AnyTable, StoreError, Table};
use pillarbox_conformance::{
    Fixture, Foreign, ForeignRow, Harness, ItemRow, Later, OnBegin, Planted, Unlock,
};
use pillarbox_mongodb::mongodb::bson::{DateTime, Document, doc};
use pillarbox_mongodb::mongodb::{Client, Database, IndexModel};
use pillarbox_mongodb::{MongodbItemStore, MongodbStore};
use uuid::Uuid;

use super::mongodb::{Guard, Wire, failed, lock};

pub(crate) struct MongodbItems {
    name: &'static str,
    server: Wire,
}

impl MongodbItems {
    pub(crate) fn main() -> Self {
        Self { name: "mongodb-flowcatalyst", server: Wire::MONGODB }
    }

    pub(crate) fn ferretdb() -> Self {
        Self { name: "ferretdb-flowcatalyst", server: Wire::FERRETDB }
    }
}

impl Harness for MongodbItems {
    fn name(&self) -> &str {
        self.name
    }

    fn fresh(&self) -> Later<'_, Result<Fixture, String>> {
        Box::pin(async { fixture(&self.server.url()?).await.map_err(|error| error.to_string()) })
    }
}

async fn fixture(url: &str) -> Result<Fixture, StoreError> {
    let client = Client::with_uri_str(url).await.map_err(failed)?;
    let name = format!("t_{}", Uuid::now_v7().simple());
    let guard = Guard { url: url.to_owned(), names: vec![name.clone(), format!("{name}_bare")] };
    let (database, bare) = (client.database(&name), client.database(&guard.names[1]));
    let store = open(&database).await?;
    store.migrate().await?;
    let transactions = store.facts().transactions;
    Ok(Fixture {
        beside: AnyTable::Items(Arc::new(open(&database).await?)),
        transactions: transactions.then(|| Arc::new(OnBegin(store.clone())) as Arc<_>),
        open: transactions.then(|| Arc::new(OnBegin(store.clone())) as Arc<_>),
        bare: Some(AnyTable::Items(Arc::new(open(&bare).await?))),
        foreign: Arc::new(Rows { database, bare, transactions }),
        store: AnyTable::Items(Arc::new(store)),
        guard: Some(Box::new(guard)),
    })
}

async fn open(database: &Database) -> Result<MongodbItemStore, StoreError> {
    MongodbStore::builder(database.clone()).open_items().await
}

struct Rows {
    database: Database,
    bare: Database,
    transactions: bool,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            match self.transactions {
                true => lock(&self.database, "outbox_events", id).await.map(Some),
                false => Ok(None),
            }
        })
    }

    fn write(&self, _: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async { Ok(Planted::Refused) })
    }

    fn plant(&self, row: ItemRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            let date = |at: Timestamp| DateTime::from_millis(at.as_millisecond());
            let document = doc! {
                "_id": row.id,
                "type": row.item_type,
                "messageGroup": row.message_group,
                "payload": row.payload,
                "status": row.status,
                "retryCount": row.retry_count,
                "createdAt": date(row.created_at),
                "processedAt": row.processed_at.map(date),
                "errorMessage": row.error_message,
            };
            let items = self.database.collection::<Document>("outbox_events");
            items.insert_one(document).await.map(|_| Planted::Taken).map_err(failed)
        })
    }

    fn look<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<ItemRow>, StoreError>> {
        Box::pin(async move {
            let items = self.database.collection::<Document>("outbox_events");
            let found = items.find_one(doc! { "_id": id }).await.map_err(failed)?;
            Ok(found.as_ref().map(item))
        })
    }

    fn make_item_tables(&self) -> Later<'_, Result<(), StoreError>> {
        Box::pin(async move {
            for collection in ["outbox_events", "outbox_dispatch_jobs"] {
                let keys = doc! { "status": 1, "messageGroup": 1, "createdAt": 1 };
                let index = IndexModel::builder().keys(keys).build();
                let items = self.bare.collection::<Document>(collection);
                items.create_index(index).await.map_err(failed)?;
            }
            Ok(())
        })
    }
}

fn item(document: &Document) -> ItemRow {
    let text = |field: &str| document.get_str(field).ok().map(str::to_owned);
    let time = |field: &str| {
        let date = document.get_datetime(field).ok()?;
        Timestamp::from_millisecond(date.timestamp_millis()).ok()
    };
    ItemRow {
        id: text("_id").expect("an id"),
        item_type: text("type").expect("a type"),
        message_group: text("messageGroup"),
        payload: text("payload"),
        status: text("status").expect("a status"),
        retry_count: document.get_i32("retryCount").expect("a count"),
        created_at: time("createdAt").expect("a time"),
        processed_at: time("processedAt"),
        error_message: text("errorMessage"),
    }
}
