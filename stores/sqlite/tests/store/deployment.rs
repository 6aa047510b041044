//! Schema deployment: who creates the tables of a queue, and who does not.

use std::time::Duration;

use pillarbox::events::Failure;
use pillarbox::model::OwnerId;
use pillarbox::port::{ErrorKind, StoreError};
use pillarbox::queue::{Database, Databases, Message, QueueError, RouteError, SchemaDeployment};
use pillarbox::{Event, Queue};
use pillarbox_sqlite::SqliteStore;
use tokio::time::timeout;

use crate::kit::Outbox;

const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'outbox_event'";
/// What is waited for has come by then, or never comes.
const PATIENCE: Duration = Duration::from_secs(60);

impl Outbox {
    fn has_tables(&self) -> bool {
        self.number(TABLES) == 1
    }

    /// A list of this one database, which is connected by its path.
    fn listed(&self) -> Databases<SqliteStore> {
        let path = self.path();
        let connect = move |_: Database| std::future::ready(SqliteStore::open(path.clone()));
        Databases::listed([Database::new("a", "sqlite:a")], connect)
    }
}

fn event() -> Event {
    Event::text("t", "{}").build().unwrap()
}

fn is_not_migrated(error: &StoreError) -> bool {
    error.kind() == ErrorKind::Schema
}

async fn handled(_: Message) -> Result<(), Failure> {
    Ok(())
}

/// OBX-108: each call that is the first one deploys.
#[tokio::test]
async fn a_queue_that_deploys_creates_its_tables_at_its_first_use() {
    let owner = OwnerId::new("ann").unwrap();
    for first in ["enqueue", "claim", "ready"] {
        let outbox = Outbox::bare();
        let queue = Queue::new(outbox.beside()).schema_deployment(SchemaDeployment::On);
        assert!(!outbox.has_tables(), "not before its first use");
        match first {
            "enqueue" => drop(queue.enqueue(event()).await.unwrap()),
            "claim" => drop(queue.claim(&owner, Duration::from_secs(30), 1).await.unwrap()),
            _ => queue.ready().await.unwrap(),
        }
        assert!(outbox.has_tables(), "{first}");
    }
}

/// OBX-109
#[tokio::test]
async fn without_deployment_nothing_is_created() {
    let outbox = Outbox::bare();
    let plain = Queue::new(outbox.beside());
    let off = plain.clone().schema_deployment(SchemaDeployment::On).schema_deployment(SchemaDeployment::Off);
    for queue in [plain, off] {
        queue.ready().await.unwrap();
        let refused = queue.enqueue(event()).await.unwrap_err();
        assert!(matches!(&refused, QueueError::Store(error) if is_not_migrated(error)), "{refused:?}");
    }
    assert!(!outbox.has_tables());
}

/// OBX-108, OBX-109
#[tokio::test]
async fn a_set_of_databases_deploys_when_one_is_connected() {
    let outbox = Outbox::bare();
    outbox.listed().queue("a").await.unwrap();
    assert!(!outbox.has_tables());
    outbox.listed().schema_deployment(SchemaDeployment::On).queue("a").await.unwrap();
    assert!(outbox.has_tables());
}

/// OBX-108
#[tokio::test]
async fn a_worker_deploys_before_it_claims() {
    let outbox = Outbox::bare();
    let worker = outbox.listed().worker().schema_deployment(SchemaDeployment::On).handler("t", handled);
    let worker = worker.start().unwrap();
    timeout(PATIENCE, worker.wait_drained()).await.unwrap();
    assert!(outbox.has_tables());
    worker.close().await;
}

/// OBX-109: a worker decides for itself only, in both directions.
#[tokio::test]
async fn what_a_worker_deploys_is_not_what_its_set_deploys() {
    let outbox = Outbox::bare();
    let databases = outbox.listed();
    drop(databases.worker().schema_deployment(SchemaDeployment::On).handler("t", handled));
    let queue = databases.queue("a").await.unwrap();
    assert!(queue.enqueue(event()).await.is_err());
    assert!(!outbox.has_tables(), "the set deploys nothing because a worker would");

    let one = Queue::new(outbox.beside());
    drop(one.worker().schema_deployment(SchemaDeployment::On).handler("t", handled));
    assert!(one.enqueue(event()).await.is_err());
    assert!(!outbox.has_tables());

    let databases = outbox.listed().schema_deployment(SchemaDeployment::On);
    drop(databases.worker().schema_deployment(SchemaDeployment::Off).handler("t", handled));
    let queued: Result<_, RouteError> = databases.queue("a").await;
    queued.unwrap().enqueue(event()).await.unwrap();
    assert!(outbox.has_tables(), "the set still deploys");
}
