//! The MongoDB store, as it is tried: a database of its own for each outbox, on a server that is named by a variable.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pillarbox::port::{Admin, AnyTable, ErrorKind, StoreError, Table};
use pillarbox_conformance::{Fixture, Foreign, ForeignRow, Harness, Later, OnBegin, Planted, Unlock};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::bson::spec::BinarySubtype;
use pillarbox_mongodb::mongodb::bson::{Binary, Bson, DateTime, Document, doc};
use pillarbox_mongodb::mongodb::error::Error;
use pillarbox_mongodb::mongodb::{Client, Database};
use uuid::Uuid;

/// How long a database may take to be dropped.
const LONGEST: Duration = Duration::from_secs(30);

pub(crate) struct Mongodb {
    name: &'static str,
    server: Wire,
}

/// A server that speaks MongoDB's protocol, by the variable that names it.
#[derive(Clone, Copy)]
pub(crate) struct Wire(&'static str);

impl Wire {
    /// A replica set.
    pub(crate) const MONGODB: Self = Self("PILLARBOX_TEST_MONGODB_URL");
    /// One of three members.
    pub(crate) const THREE: Self = Self("PILLARBOX_TEST_MONGODB_3_URL");
    /// Without transactions.
    pub(crate) const FERRETDB: Self = Self("PILLARBOX_TEST_FERRETDB_URL");

    pub(crate) fn url(self) -> Result<String, String> {
        let Self(variable) = self;
        let missing = |_| format!("{variable} is not set; `cargo xtask test` starts a server");
        std::env::var(variable).map_err(missing)
    }
}

impl Mongodb {
    pub(crate) fn main() -> Self {
        Self { name: "mongodb", server: Wire::MONGODB }
    }

    pub(crate) fn three() -> Self {
        Self { name: "mongodb-3", server: Wire::THREE }
    }

    pub(crate) fn ferretdb() -> Self {
        Self { name: "ferretdb", server: Wire::FERRETDB }
    }
}

impl Harness for Mongodb {
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
    let database = client.database(&name);
    let store = MongodbStore::new(database.clone()).await?;
    store.migrate().await?;
    let transactions = store.facts().transactions;
    Ok(Fixture {
        beside: AnyTable::Native(Arc::new(MongodbStore::new(database.clone()).await?)),
        foreign: Arc::new(Rows { database, transactions }),
        transactions: transactions.then(|| Arc::new(OnBegin(store.clone())) as Arc<_>),
        open: transactions.then(|| Arc::new(OnBegin(store.clone())) as Arc<_>),
        bare: Some(AnyTable::Native(Arc::new(MongodbStore::new(client.database(&guard.names[1])).await?))),
        store: AnyTable::Native(Arc::new(store)),
        guard: Some(Box::new(guard)),
    })
}

pub(crate) fn failed(error: Error) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "prepare", "mongodb", "a fresh outbox").with_source(error)
}

/// Drops the databases of an outbox when nobody uses it any more.
pub(crate) struct Guard {
    pub(crate) url: String,
    pub(crate) names: Vec<String>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (url, names) = (std::mem::take(&mut self.url), std::mem::take(&mut self.names));
        // A runtime and a client of its own: those of the test may be ending, and are held up while this waits.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let drop_all = async {
                let client = Client::with_uri_str(&url).await?;
                for name in names {
                    client.database(&name).drop().await?;
                }
                Ok::<(), Error>(())
            };
            runtime.expect("a runtime").block_on(async { tokio::time::timeout(LONGEST, drop_all).await })
        });
        let _ = dropping.join();
    }
}

/// Writes to a document in a transaction that stays open.
pub(crate) async fn lock(database: &Database, collection: &str, id: &str) -> Result<Unlock, StoreError> {
    let mut session = database.client().start_session().await.map_err(failed)?;
    session.start_transaction().await.map_err(failed)?;
    let documents = database.collection::<Document>(collection);
    let change = doc! { "$set": { "locked_by_a_test": true } };
    let locked = documents.update_one(doc! { "_id": id }, change).session(&mut session).await;
    assert_eq!(locked.map_err(failed)?.matched_count, 1, "there is something to lock");
    let unlock = move || -> Later<'static, ()> {
        Box::pin(async move { session.abort_transaction().await.expect("a transaction that is open") })
    };
    Ok(Box::new(unlock))
}

struct Rows {
    database: Database,
    transactions: bool,
}

impl Foreign for Rows {
    fn lock<'a>(&'a self, id: &'a str) -> Later<'a, Result<Option<Unlock>, StoreError>> {
        Box::pin(async move {
            match self.transactions {
                true => lock(&self.database, "outbox_event", id).await.map(Some),
                false => Ok(None),
            }
        })
    }

    fn write(&self, row: ForeignRow) -> Later<'_, Result<Planted, StoreError>> {
        Box::pin(async move {
            let now = Bson::from(DateTime::from_millis(Timestamp::now().as_millisecond()));
            let or_now = |text: &Option<String>| text.as_deref().map_or_else(|| now.clone(), Bson::from);
            let id = match &row.id_bytes {
                Some(bytes) => Bson::from(Binary { subtype: BinarySubtype::Generic, bytes: bytes.clone() }),
                None => Bson::from(row.event_id.as_str()),
            };
            let document = doc! {
                "_id": id,
                "event_type": row.event_type.as_str(),
                "aggregate_type": row.aggregate_type.as_deref(),
                "aggregate_id": row.aggregate_id.as_deref(),
                "tenant_id": Bson::Null,
                "payload": row.payload.as_deref(),
                "headers": row.headers.as_deref(),
                "status": 0,
                "attempts": row.attempts.as_deref().map_or(Bson::from(0), Bson::from),
                "available_at": or_now(&row.available_at),
                "created_at": or_now(&row.created_at),
            };
            let events = self.database.collection::<Document>("outbox_event");
            events.insert_one(document).await.map(|_| Planted::Taken).map_err(failed)
        })
    }
}
