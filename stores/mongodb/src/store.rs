//! The store handle: implements the store port over a `mongodb::Database`.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use mongodb::Database;
use pillarbox::model::{NewRow, NodeId, Row, Seq, TableName, Written};
use pillarbox::port::{
    Admin, Claim, DueTopics, ErrorKind, Facts, Fence, Fetch, Fetched, Heartbeat, ItemStore, Items, Joins,
    Membership, Native, Promote, Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreError,
    StoreFuture, Table, Take, Taken, Wakeups, Write,
};
use pillarbox_store_kit::handle;
use tokio::time::{timeout, timeout_at};

use crate::config::{MongodbStoreBuilder, MongodbWakeUp, Whose};
use crate::done::Caution;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::outbox::{Operation, Outbox, Server, Step, late, step};
use crate::sessions::Holder;
use crate::wakeups::Listener;
use crate::{claim, fetch, flowcatalyst, membership, migrate, promote};

const WRITE: &str = "write";
/// Attempts of a settle that meets write conflicts. Few, because a node must not wait long for one document.
const SETTLES: u32 = 3;
/// Attempts of a queue settle: steps of one join all write the join's document.
const QUEUE_SETTLES: u32 = 12;
/// At most this many event ids appear in an error.
const IDS_TOLD: usize = 20;
/// How long the shutdown of the client may take.
const SHUT_DOWN: Duration = Duration::from_secs(2);

/// An outbox in a MongoDB database, in a collection of kind `K`. Clones share one outbox.
pub struct MongodbTable<K>(Arc<Shared>, PhantomData<fn() -> K>);

/// An outbox in Pillarbox's own collection.
pub type MongodbStore = MongodbTable<Native>;

/// An outbox in a collection of items, which belongs to another program.
pub type MongodbItemStore = MongodbTable<Items>;

/// State shared by all clones of a store.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) outbox: Arc<Outbox>,
    wake_up: MongodbWakeUp,
    listener: OnceLock<Listener>,
    client: Whose,
}

impl MongodbStore {
    /// Opens a store in the application's database, with default settings.
    pub async fn new(database: Database) -> Result<Self, StoreError> {
        Self::builder(database).open().await
    }

    /// Opens a store with its own client, from a URL `mongodb://HOST/DATABASE`.
    pub async fn open_url(url: &str) -> Result<Self, StoreError> {
        Self::builder_from_url(url).await?.open().await
    }

    /// Returns a builder for a store in the application's database.
    pub fn builder(database: Database) -> MongodbStoreBuilder {
        MongodbStoreBuilder::new(database)
    }

    /// Returns a builder for a store with its own client.
    pub async fn builder_from_url(url: &str) -> Result<MongodbStoreBuilder, StoreError> {
        MongodbStoreBuilder::from_url(url).await
    }

    /// Returns a `mongosh` script that creates the collections of an outbox. Needs no server.
    #[must_use]
    pub fn schema_sql(table: &TableName) -> String {
        migrate::script::<Native>(table)
    }
}

impl MongodbItemStore {
    /// Returns a `mongosh` script that creates a collection of items and the store's own collections. Needs
    /// no server.
    #[must_use]
    pub fn schema_sql(table: &TableName) -> String {
        migrate::script::<Items>(table)
    }
}

impl<K> MongodbTable<K> {
    pub(crate) fn start(builder: MongodbStoreBuilder, server: (Server, Duration)) -> Self
    where
        K: Kind,
    {
        let table = builder.settings.table(K::LAYOUT);
        let MongodbStoreBuilder { database, settings, wake_up, command_timeout, client } = builder;
        let facts = Facts {
            concurrent_writers: server.0 == Server::Replicated && K::NUMBERED,
            concurrent_claims: false,
            concurrent_settles: server.0 == Server::Replicated && K::NUMBERED,
            transactions: server.0 == Server::Replicated,
            ..settings.facts("mongodb", K::LAYOUT)
        };
        let outbox = Arc::new(Outbox::new(database, table, server, command_timeout));
        Self(Arc::new(Shared { facts, outbox, wake_up, listener: OnceLock::new(), client }), PhantomData)
    }

    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.0.outbox
    }

    pub(crate) fn table(&self) -> &TableName {
        &self.0.outbox.table
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.facts.name
    }

    /// The database that holds the outbox and the application's documents.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.outbox.database
    }

    /// Stops listening for wake-ups and waits for all calls in flight, including calls whose caller has gone.
    pub async fn close(&self) {
        if let Some(listener) = self.0.listener.get() {
            listener.stop();
        }
        self.0.outbox.tasks.close();
        self.0.outbox.tasks.wait().await;
        // Sessions that are not cleared would block the application's own `Client::shutdown`.
        self.0.outbox.sessions.clear(&self.0.outbox).await;
    }

    /// Runs a call to completion or to its deadline, and names the operation in its error.
    pub(crate) fn run<R, T>(
        &self,
        operation: &'static str,
        step: Step,
        request: R,
        work: Operation<R, T>,
    ) -> StoreFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        self.run_or(late, operation, step, request, work)
    }

    /// Like `run`, with the failure to report when the call reaches its deadline.
    fn run_or<R, T>(
        &self,
        late: fn() -> DriverError,
        operation: &'static str,
        step: Step,
        request: R,
        work: Operation<R, T>,
    ) -> StoreFuture<'_, T>
    where
        R: Send + Sync + 'static,
        T: Send + 'static,
    {
        Box::pin(async move {
            let outbox = Arc::clone(self.outbox());
            let answer = self.to_its_end(async move {
                let deadline = outbox.deadline();
                let answer = timeout_at(deadline, outbox.perform(step, deadline, &request, work)).await;
                // On a timeout the driver discards the connection, because nobody reads its answer.
                answer.unwrap_or_else(|_| Err(late()))
            });
            answer.await.map_err(|failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// The error of a write whose answer was lost. It names the events that may have been written.
    fn unknown(&self, rows: &[NewRow]) -> StoreError {
        let ids: Vec<&str> = rows.iter().take(IDS_TOLD).map(|row| row.event.id().as_str()).collect();
        let more = if rows.len() > IDS_TOLD { ", …" } else { "" };
        let detail = format!(
            "the answer was lost, and these events may have been written, all or none: {}{more}; look for them, or \
             write them again with the same ids: existing events are refused",
            ids.join(", ")
        );
        StoreError::new(ErrorKind::Unknown, WRITE, self.name(), detail)
    }

    /// Adds the state of pending rows to a membership.
    async fn look(&self, membership: Membership, after: Seq) -> Membership
    where
        K: Kind,
    {
        let look = |held| {
            self.run("look for rows", Step::Single, (held, after), |call, (held, after)| {
                K::waiting(call, held, *after)
            })
        };
        membership.look(look).await
    }

    /// Runs work in its own task, so that a caller that drops its future cannot cancel the call half way.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DriverError>> + Send + 'static,
    ) -> Result<T, DriverError> {
        let gone = || DriverError::Refused(ErrorKind::Unexpected, "a database call panicked".to_owned());
        self.outbox().tasks.spawn(work).await.unwrap_or_else(|_| Err(gone()))
    }
}

handle!(MongodbTable);

impl<K: Kind> Table for MongodbTable<K> {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.run("now", Step::Single, (), |call, ()| K::now(call))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        let request = Arc::new(request);
        // One document is written atomically without a transaction.
        let step = if request.rows.len() == 1 { Step::Single } else { Step::Together };
        // A write that times out may still have added its rows.
        let open = || DriverError::Open(Box::new(late()));
        let written = self.run_or(open, WRITE, step, Arc::clone(&request), |call, request| {
            K::insert(call, &request.rows, request.now)
        });
        Box::pin(async move {
            let written = written.await.map_err(|error| match error.kind() {
                ErrorKind::Unknown => self.unknown(&request.rows),
                _ => error,
            })?;
            // On a replica set the change stream reports these rows.
            if let Some(listener) = self.0.listener.get().filter(|_| self.outbox().server == Server::Alone) {
                listener.written(self.outbox());
            }
            Ok(written)
        })
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        let step = match request.fence {
            Fence::Node(node) => Step::Of(Holder::Node(node), SETTLES),
            Fence::Owner(ref owner) => Step::Of(Holder::Owner(owner.clone()), QUEUE_SETTLES),
            Fence::Open => Step::Briefly(QUEUE_SETTLES),
        };
        let settle = move |request: Settle| {
            self.run("settle", step.clone(), request, |call, request| {
                let caution = Caution::of(call, request);
                K::settle(call, request, caution)
            })
        };
        // One document changed by another transaction fails the whole batch. Settling it in halves isolates
        // that document.
        Box::pin(request.in_halves(|error| error.kind() == ErrorKind::Conflict, settle))
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        let registered = self.run("register", Step::Single, request, step!(membership::register::<K>));
        Box::pin(async move { Ok(self.look(registered.await?, Seq(0)).await) })
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        let after = request.after;
        let renewed = self.run("heartbeat", Step::Single, request, step!(membership::heartbeat::<K>));
        Box::pin(async move {
            match renewed.await? {
                Some(membership) => Ok(Some(self.look(membership, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> StoreFuture<'_, ()> {
        self.run("publish", Step::Single, (node, state), |call, (node, state)| {
            Box::pin(membership::publish(call, *node, state))
        })
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        self.run("leave", Step::Single, node, |call, node| Box::pin(membership::leave(call, *node)))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        // Without change streams only the counter shows new rows, and items do not move the counter.
        if self.0.wake_up == MongodbWakeUp::Off || !K::NUMBERED && !self.0.facts.transactions {
            return None;
        }
        Some(self.0.listener.get_or_init(|| Listener::start(self.outbox())).wakeups())
    }

    /// Shuts down explicitly: a dropped client ends its sessions in a driver task, which panics on a runtime
    /// that is shutting down.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.close().await;
            if self.0.client == Whose::Own {
                let ending = self.database().client().clone().shutdown().immediate(true);
                if timeout(SHUT_DOWN, ending).await.is_err() {
                    tracing::debug!("the client did not end in time");
                }
            }
        })
    }
}

impl Store for MongodbStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        self.run("fetch", Step::Single, request, step!(fetch::fetch))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.run("claim", Step::Single, request, step!(claim::claim))
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.run("due topics", Step::Single, request, step!(claim::due_topics))
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.run("reap", Step::Single, request, step!(claim::reap))
    }

    fn promote(&self, request: Promote) -> StoreFuture<'_, Promoted> {
        self.run("promote", Step::Single, request, step!(promote::promote))
    }

    fn joins(&self) -> Option<&dyn Joins> {
        self.0.facts.transactions.then_some(self as &dyn Joins)
    }
}

impl ItemStore for MongodbItemStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        self.run("take", Step::Single, request, step!(flowcatalyst::take))
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        self.run("recover", Step::Single, request, step!(flowcatalyst::recover))
    }
}
