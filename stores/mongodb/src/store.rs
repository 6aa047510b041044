//! The handle: the store port over a database of the driver's.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mongodb::Database;
use pillarbox::model::{Layout, Limits, NewRow, NodeId, Row, Seq, SlotSet, TableName, Written};
use pillarbox::port::{
    Admin, Answer, Claim, DueTopics, ErrorKind, Facts, Fence, Fetch, Fetched, Heartbeat, Joins, Lead,
    Membership, Promote, Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreError, Take, Taken,
    Wakeups, Write,
};
use pillarbox::rules::SLOTS;
use tokio::time::{timeout, timeout_at};

use crate::call::Call;
use crate::config::{MongodbStoreBuilder, WakeUp, Whose};
use crate::done::Caution;
use crate::error::Failure;
use crate::hints::Listener;
use crate::insert::insert_rows;
use crate::membership::Waiting;
use crate::outbox::{Outbox, Server, Step, Work, late};
use crate::sessions::Holder;
use crate::{claim, fetch, flowcatalyst, membership, migrate, promote, settle};

const WRITE: &str = "write";
/// How often a settle is tried that loses against others: it must not wait long for one document.
const SETTLES: u32 = 3;
/// The same for the queue, where steps of one join meet in its document.
const QUEUE_SETTLES: u32 = 12;
/// The same for a leader that takes rows, one of which another transaction may hold.
const TAKES: u32 = 12;
/// How many ids an error names.
const IDS_TOLD: usize = 20;
/// How long a heartbeat waits for a look at the rows; beyond, the reader looks for itself.
const LOOK: Duration = Duration::from_secs(2);

/// An outbox in a MongoDB database. A clone is the same outbox.
#[derive(Clone)]
pub struct MongodbStore(Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    facts: Facts,
    pub(crate) outbox: Arc<Outbox>,
    wake_up: WakeUp,
    listener: OnceLock<Listener>,
    client: Whose,
}

impl MongodbStore {
    /// A store in an application's own database, with the default settings.
    pub async fn new(database: Database) -> Result<Self, StoreError> {
        Self::builder(database).open().await
    }

    /// A store with a client of its own, from a URL `mongodb://HOST/DATABASE`.
    pub async fn open_url(url: &str) -> Result<Self, StoreError> {
        Self::builder_from_url(url).await?.open().await
    }

    /// Settings for a store in an application's own database.
    pub fn builder(database: Database) -> MongodbStoreBuilder {
        MongodbStoreBuilder::new(database)
    }

    /// Settings for a store with a client of its own.
    pub async fn builder_from_url(url: &str) -> Result<MongodbStoreBuilder, StoreError> {
        MongodbStoreBuilder::from_url(url).await
    }

    /// A script for `mongosh` that makes the collections of an outbox, without a server.
    #[must_use]
    pub fn schema_sql(table: &TableName, layout: Layout) -> String {
        match layout {
            Layout::Native => migrate::script(table),
            Layout::Flowcatalyst => flowcatalyst::script(table),
        }
    }

    pub(crate) fn start(builder: MongodbStoreBuilder, server: (Server, Duration)) -> Self {
        let MongodbStoreBuilder { database, name, table, layout, limits, wake_up, command_timeout, client } =
            builder;
        let table = table.unwrap_or_else(|| TableName::usual(layout));
        let facts = Facts {
            kind: "mongodb",
            name,
            slots: match layout {
                Layout::Native => SLOTS,
                Layout::Flowcatalyst => 1,
            },
            concurrent_writers: server.0 == Server::Replicated && layout == Layout::Native,
            transactions: server.0 == Server::Replicated,
            durable: true,
            shared: true,
            limits: Limits { layout, ..limits },
        };
        let outbox = Arc::new(Outbox::new(database, table, layout, server, command_timeout));
        Self(Arc::new(Shared { facts, outbox, wake_up, listener: OnceLock::new(), client }))
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

    /// The database that the outbox is in, and business documents beside it.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.outbox.database
    }

    /// Stops listening and waits for calls that are under way, also those that nobody waits for any more.
    pub async fn close(&self) {
        if let Some(listener) = self.0.listener.get() {
            listener.stop();
        }
        self.0.outbox.tasks.close();
        self.0.outbox.tasks.wait().await;
        // A client of the application that shuts down waits for them.
        self.0.outbox.sessions.clear(&self.0.outbox).await;
    }

    /// Runs a call to its end, within its bound, and names the operation in its error.
    pub(crate) fn run<T, F>(&self, operation: &'static str, step: Step, work: F) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Call<'_>) -> Work<'c, T> + Send + Sync + 'static,
    {
        self.run_or(late, operation, step, work)
    }

    /// The same, with what is said of a call that runs out of time.
    fn run_or<T, F>(
        &self,
        late: fn() -> Failure,
        operation: &'static str,
        step: Step,
        work: F,
    ) -> Answer<'_, T>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Call<'_>) -> Work<'c, T> + Send + Sync + 'static,
    {
        Box::pin(async move {
            let outbox = Arc::clone(self.outbox());
            let answer = self.to_its_end(async move {
                let deadline = outbox.deadline();
                let answer = timeout_at(deadline, outbox.perform(step, deadline, &work)).await;
                // The driver throws a connection away whose answer nobody waits for.
                answer.unwrap_or_else(|_| Err(late()))
            });
            answer.await.map_err(|failure| failure.into_store_error(operation, self.name()))
        })
    }

    /// Says which events may have been written or not.
    fn unknown(&self, rows: &[NewRow]) -> StoreError {
        let ids: Vec<&str> = rows.iter().take(IDS_TOLD).map(|row| row.event.id().as_str()).collect();
        let more = if rows.len() > IDS_TOLD { ", …" } else { "" };
        let detail = format!(
            "the answer was lost, and these events may be there, all or none: {}{more}; look for them, or write them \
             again with the same ids, of which those that are there are refused",
            ids.join(", ")
        );
        StoreError::new(ErrorKind::Unknown, WRITE, self.name(), detail)
    }

    /// Adds the rows that wait to where a node stands, if they are found soon.
    async fn look(&self, membership: Membership, after: Seq) -> Membership {
        let held = Arc::new(SlotSet::new(membership.held.iter().map(|held| held.slot)));
        let looked = self.run("look for rows", Step::Single, move |call| {
            let held = Arc::clone(&held);
            Box::pin(async move { membership::waiting(call, &held, after).await })
        });
        let waiting = match timeout(LOOK, looked).await {
            Ok(Ok(waiting)) => Some(waiting),
            Ok(Err(error)) => {
                tracing::debug!(%error, "could not look for waiting rows");
                None
            }
            Err(_) => None,
        };
        Waiting::add(waiting, membership)
    }

    /// Runs work in a task, since a call must not be dropped half way.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = || Failure::Refused(ErrorKind::Unexpected, "a database call panicked".to_owned());
        self.outbox().tasks.spawn(work).await.unwrap_or_else(|_| Err(gone()))
    }
}

impl fmt::Debug for MongodbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MongodbStore({})", self.name())
    }
}

impl Store for MongodbStore {
    fn facts(&self) -> &Facts {
        &self.0.facts
    }

    fn fetch(&self, request: Fetch) -> Answer<'_, Fetched> {
        let request = Arc::new(request);
        self.run("fetch", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move {
                match call.outbox().layout {
                    Layout::Native => fetch::fetch(call, &request).await,
                    Layout::Flowcatalyst => flowcatalyst::fetch(call, &request).await,
                }
            })
        })
    }

    fn claim(&self, request: Claim) -> Answer<'_, Vec<Row>> {
        let request = Arc::new(request);
        self.run("claim", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move {
                match call.outbox().layout {
                    Layout::Native => claim::claim(call, &request).await,
                    Layout::Flowcatalyst => flowcatalyst::claim(call, &request).await,
                }
            })
        })
    }

    fn due_topics(&self, request: DueTopics) -> Answer<'_, Vec<String>> {
        let request = Arc::new(request);
        self.run("due topics", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move {
                match call.outbox().layout {
                    Layout::Native => claim::due_topics(call, &request).await,
                    Layout::Flowcatalyst => Ok(Vec::new()),
                }
            })
        })
    }

    fn reap(&self, request: Reap) -> Answer<'_, u64> {
        let request = Arc::new(request);
        self.run("reap", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move {
                match call.outbox().layout {
                    Layout::Native => claim::reap(call, &request).await,
                    Layout::Flowcatalyst => flowcatalyst::reap(call, &request).await,
                }
            })
        })
    }

    fn settle(&self, request: Settle) -> Answer<'_, Settled> {
        let step = match request.fence {
            Fence::Node(node) => Step::Of(Holder::Node(node), SETTLES),
            Fence::Owner(ref owner) => Step::Of(Holder::Owner(owner.clone()), QUEUE_SETTLES),
            Fence::Open => Step::Briefly(QUEUE_SETTLES),
        };
        let settle = move |request: Settle| {
            let request = Arc::new(request);
            self.run("settle", step.clone(), move |call| {
                let request = Arc::clone(&request);
                Box::pin(async move {
                    match call.outbox().layout {
                        Layout::Native => {
                            let caution = Caution::of(call, &request);
                            settle::settle(call, &request, caution).await
                        }
                        Layout::Flowcatalyst => flowcatalyst::settle(call, &request).await,
                    }
                })
            })
        };
        // A document that another transaction has changed fails the whole of ours at once.
        Box::pin(request.in_halves(|error| error.kind() == ErrorKind::Conflict, settle))
    }

    fn register(&self, request: Register) -> Answer<'_, Membership> {
        let request = Arc::new(request);
        let joined = self.run("join", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { membership::join(call, &request).await })
        });
        Box::pin(async move { Ok(self.look(joined.await?, Seq(0)).await) })
    }

    fn heartbeat(&self, request: Heartbeat) -> Answer<'_, Option<Membership>> {
        let after = request.after;
        let request = Arc::new(request);
        let renewed = self.run("heartbeat", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { membership::heartbeat(call, &request).await })
        });
        Box::pin(async move {
            match renewed.await? {
                Some(membership) => Ok(Some(self.look(membership, after).await)),
                None => Ok(None),
            }
        })
    }

    fn publish(&self, node: NodeId, state: String) -> Answer<'_, ()> {
        self.run("publish", Step::Single, move |call| {
            let state = state.clone();
            Box::pin(async move { membership::publish(call, node, &state).await })
        })
    }

    fn leave(&self, node: NodeId) -> Answer<'_, ()> {
        self.run("leave", Step::Single, move |call| Box::pin(membership::leave(call, node)))
    }

    fn promote(&self, request: Promote) -> Answer<'_, Promoted> {
        if self.0.facts.layout() == Layout::Flowcatalyst {
            return Box::pin(async { Err(StoreError::no_numbers("promote", self.name())) });
        }
        let request = Arc::new(request);
        self.run("promote", Step::Single, move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { promote::promote(call, &request).await })
        })
    }

    fn write(&self, request: Write) -> Answer<'_, Vec<Written>> {
        let request = Arc::new(request);
        // One document comes whole or not at all.
        let step = if request.rows.len() == 1 { Step::Single } else { Step::Together };
        let writing = Arc::clone(&request);
        // Rows of a write whose answer did not come in time may be there.
        let open = || Failure::Open(Box::new(late()));
        let written = self.run_or(open, WRITE, step, move |call| {
            let request = Arc::clone(&writing);
            Box::pin(async move { insert_rows(call, &request.rows, request.now).await })
        });
        Box::pin(async move {
            let written = written.await.map_err(|error| match error.kind() {
                ErrorKind::Unknown => self.unknown(&request.rows),
                _ => error,
            })?;
            // A change stream tells of them too.
            if let Some(listener) = self.0.listener.get().filter(|_| self.outbox().server == Server::Alone) {
                listener.written(self.outbox());
            }
            Ok(written)
        })
    }

    fn joins(&self) -> Option<&dyn Joins> {
        let has_joins = self.0.facts.transactions && self.0.facts.layout() == Layout::Native;
        has_joins.then_some(self as &dyn Joins)
    }

    fn lead(&self) -> Option<&dyn Lead> {
        (self.0.facts.layout() == Layout::Flowcatalyst).then_some(self as &dyn Lead)
    }

    fn admin(&self) -> &dyn Admin {
        self
    }

    fn wakeups(&self) -> Option<Wakeups> {
        if self.0.wake_up == WakeUp::Off
            || self.0.facts.layout() == Layout::Flowcatalyst && !self.0.facts.transactions
        {
            return None;
        }
        Some(self.0.listener.get_or_init(|| Listener::start(self.outbox())).wakeups())
    }

    /// A client that is dropped tells the server so in a task of the driver's, which panics on a runtime that is ending.
    fn shut_down(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            self.close().await;
            if self.0.client == Whose::Own {
                let ending = self.database().client().clone().shutdown().immediate(true);
                if timeout(LOOK, ending).await.is_err() {
                    tracing::debug!("the client did not end in time");
                }
            }
        })
    }
}

impl Lead for MongodbStore {
    fn take(&self, request: Take) -> Answer<'_, Taken> {
        let request = Arc::new(request);
        self.run("take", Step::Of(Holder::Node(request.node), TAKES), move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { flowcatalyst::take(call, &request).await })
        })
    }

    fn recover(&self, request: Recover) -> Answer<'_, u64> {
        let request = Arc::new(request);
        self.run("recover", Step::Of(Holder::Node(request.node), u32::MAX), move |call| {
            let request = Arc::clone(&request);
            Box::pin(async move { flowcatalyst::recover(call, &request).await })
        })
    }
}
