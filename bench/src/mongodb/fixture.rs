//! A fixture to measure in: a database with an outbox and the documents of a business.

use pillarbox::port::Table;
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::bson::{Document, doc};
use pillarbox_mongodb::mongodb::options::ClientOptions;
use pillarbox_mongodb::mongodb::{Client, Collection, Database as Documents};

use super::reader::Bare;
use crate::database::{ACCOUNTS, Database, Kind, Reads, add_by_store, unique_name};

/// Documents of one insert.
const PAGE: usize = 1_000;

/// A database of its own.
pub(crate) struct Fixture {
    options: ClientOptions,
    admin: Documents,
    name: String,
}

impl Fixture {
    /// Connections for the business.
    pub(super) fn database(&self, connections: u32) -> anyhow::Result<Documents> {
        let mut options = self.options.clone();
        options.max_pool_size = Some(connections.max(1));
        options.min_pool_size = Some(connections.max(1));
        Ok(Client::with_options(options)?.database(&self.name))
    }

    /// The events, past the store.
    pub(super) fn events(database: &Documents) -> Collection<Document> {
        database.collection("outbox_event")
    }

    async fn make(&self) -> anyhow::Result<()> {
        let store = self.open_store(1).await?;
        store.admin().migrate().await?;
        Self::close_store(&store).await;
        self.admin.create_collection("orders").await?;
        let accounts: Vec<Document> =
            (0..ACCOUNTS as i64).map(|number| doc! { "_id": number, "balance": 0_i64 }).collect();
        for page in accounts.chunks(PAGE) {
            self.admin.collection::<Document>("account").insert_many(page).await?;
        }
        Ok(())
    }
}

impl Database for Fixture {
    type Store = MongodbStore;
    type Reader = Bare;

    const BARE: &'static str = "bare commands";

    async fn fresh(url: &str) -> anyhow::Result<Self> {
        let options = ClientOptions::parse(url).await?;
        let name = unique_name();
        let admin = Client::with_options(options.clone())?.database(&name);
        let fixture = Self { options, admin, name };
        fixture.make().await?;
        Ok(fixture)
    }

    /// The stream of changes has a connection to itself, and so has a heartbeat that must not wait.
    async fn open_store(&self, connections: u32) -> anyhow::Result<MongodbStore> {
        Ok(MongodbStore::builder(self.database(connections + 2)?).open().await?)
    }

    async fn close_store(store: &MongodbStore) {
        store.close().await;
    }

    async fn reader(&self, reads: Reads) -> anyhow::Result<Bare> {
        Ok(Bare::new(Self::events(&self.database(1)?), reads))
    }

    async fn add(&self, rows: usize, kind: Kind) -> anyhow::Result<()> {
        let store = self.open_store(1).await?;
        add_by_store(&store, rows, kind).await?;
        Self::close_store(&store).await;
        Ok(())
    }

    async fn calmed(&self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn waiting(&self) -> anyhow::Result<usize> {
        let pending = doc! { "status": { "$in": [0, 2] } };
        Ok(usize::try_from(Self::events(&self.admin).count_documents(pending).await?)?)
    }

    async fn drop_all(self) -> anyhow::Result<()> {
        Ok(self.admin.drop().await?)
    }
}
