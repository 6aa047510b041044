//! The collections of one outbox, what kind of server holds them, and how calls run on it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::UNKNOWN_TRANSACTION_COMMIT_RESULT;
use mongodb::options::{
    Acknowledgment, CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
    WriteConcern,
};
use mongodb::{ClientSession, Collection, Database};
use pillarbox::model::{Layout, TableName};
use pillarbox::port::ErrorKind;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::call::Call;
use crate::error::Failure;
use crate::office::Office;

/// What a call does; boxed, because it borrows the call.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'c>>;

/// How often a transaction of the store's own is tried that loses against others, with a growing pause between.
const TRIES: u32 = 12;
/// The same for a settle, which must not wait long for one document.
const BRIEF_TRIES: u32 = 3;
/// How often a commit is sent again whose answer was lost.
const COMMITS: u32 = 3;

/// What the server can do, found out by asking it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// A member of a replica set, or a router before such: it has transactions and change streams.
    Replicated,
    /// Anything else: every command is applied at once, also those that claim to be in a transaction.
    Alone,
}

impl Server {
    /// Asks. A server that knows of no replica set has no transactions, whatever commands it accepts.
    pub(crate) async fn ask(database: &Database) -> Result<Self, Failure> {
        let answer = database.run_command(doc! { "hello": 1 }).await?;
        let router = answer.get_str("msg").is_ok_and(|text| text == "isdbgrid");
        let member = answer.get_str("setName").is_ok_and(|name| !name.is_empty());
        Ok(if router || member { Self::Replicated } else { Self::Alone })
    }
}

/// Whether what a call changes must change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It only reads, or changes one document.
    Single,
    /// In a transaction, where the server has them.
    Together,
    /// The same, and it gives up soon where it loses against others.
    Briefly,
}

/// The names of the collections.
pub(crate) struct Names {
    pub(crate) event: String,
    pub(crate) meta: String,
    pub(crate) group: String,
    pub(crate) audit: String,
    pub(crate) node: String,
}

impl Names {
    pub(crate) fn new(table: &TableName) -> Self {
        let beside = |name: &str| format!("{}_{name}", table.family());
        Self {
            event: table.as_str().to_owned(),
            meta: beside("meta"),
            group: beside("group"),
            audit: beside("audit"),
            node: beside("node"),
        }
    }
}

/// One outbox in one database.
pub(crate) struct Outbox {
    pub(crate) database: Database,
    pub(crate) names: Names,
    pub(crate) table: TableName,
    pub(crate) layout: Layout,
    pub(crate) server: Server,
    /// What the server is told to give up after; the store waits a little longer and then throws the connection away.
    pub(crate) timeout: Duration,
    pub(crate) tasks: TaskTracker,
    pub(crate) office: Office,
    /// For how many claims it is remembered that others claim the same rows.
    pub(crate) crowd: AtomicU32,
    options: CollectionOptions,
}

impl Outbox {
    pub(crate) fn new(
        database: Database,
        table: TableName,
        layout: Layout,
        server: Server,
        timeout: Duration,
    ) -> Self {
        let mut options = CollectionOptions::default();
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.write_concern = Some(confirmed(timeout));
        options.read_concern = match server {
            Server::Replicated => Some(ReadConcern::majority()),
            Server::Alone => None,
        };
        let (names, tasks, crowd) = (Names::new(&table), TaskTracker::new(), AtomicU32::new(0));
        let office = Office::new();
        Self { database, names, table, layout, server, timeout, tasks, office, crowd, options }
    }

    /// A collection, read and written on the primary with the majority's consent.
    pub(crate) fn raw(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection_with_options(name, self.options.clone())
    }

    pub(crate) fn documents(&self, name: &str) -> Collection<Document> {
        self.database.collection_with_options(name, self.options.clone())
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout + Duration::from_secs(5)
    }

    /// How a transaction reads and commits.
    pub(crate) fn transaction(&self) -> TransactionOptions {
        TransactionOptions::builder()
            .read_concern(ReadConcern::snapshot())
            .write_concern(confirmed(self.timeout))
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .max_commit_time(self.timeout)
            .build()
    }

    /// A session with an open transaction.
    pub(crate) async fn begin(&self) -> Result<ClientSession, Failure> {
        let mut session = self.database.client().start_session().await?;
        session.start_transaction().with_options(self.transaction()).await?;
        Ok(session)
    }

    /// Runs a call to its end, whether or not the caller goes on waiting.
    pub(crate) async fn perform<T, F>(self: &Arc<Self>, step: Step, work: &F) -> Result<T, Failure>
    where
        F: for<'c> Fn(&'c mut Call<'_>) -> Work<'c, T>,
    {
        if step == Step::Single || self.server == Server::Alone {
            return work(&mut Call::new(self, None)).await;
        }
        let mut failure = Failure::lost();
        let tries = if step == Step::Briefly { BRIEF_TRIES } else { TRIES };
        for tried in 0..tries {
            failure = match self.transact(work).await {
                Ok(value) => return Ok(value),
                Err(failure) if failure.is_transient() => failure,
                Err(failure) => return Err(failure),
            };
            pause(tried).await;
        }
        Err(failure)
    }

    async fn transact<T, F>(self: &Arc<Self>, work: &F) -> Result<T, Failure>
    where
        F: for<'c> Fn(&'c mut Call<'_>) -> Work<'c, T>,
    {
        let mut session = self.begin().await?;
        let answer = work(&mut Call::new(self, Some(&mut session))).await;
        match answer {
            Ok(value) => commit(&mut session).await.map(|()| value),
            Err(failure) => {
                // An abort that is lost is made up for by the server, which ends what is idle.
                let _ = session.abort_transaction().await;
                Err(failure)
            }
        }
    }
}

/// Commits, and asks again where the answer was lost: a commit that is sent twice happens once.
pub(crate) async fn commit(session: &mut ClientSession) -> Result<(), Failure> {
    let mut tried = 0;
    loop {
        match session.commit_transaction().await {
            Ok(()) => return Ok(()),
            Err(error) if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) && tried < COMMITS => {
                pause(tried).await;
                tried += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A pause of a random length whose bound doubles, up to 128 ms: those who met once should not meet again.
pub(crate) async fn pause(tried: u32) {
    let bound_us = 1_000_u64 << tried.min(7);
    let part = Uuid::new_v4().as_u128() as u64 % bound_us;
    sleep(Duration::from_micros(bound_us / 4 + part)).await;
}

/// Confirmed by the majority, on disk.
fn confirmed(timeout: Duration) -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(Acknowledgment::Majority);
    concern.journal = Some(true);
    concern.w_timeout = Some(timeout);
    concern
}

/// The same as a part of a command.
pub(crate) fn confirmed_document(timeout: Duration) -> Document {
    doc! { "w": "majority", "j": true, "wtimeout": i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX) }
}

pub(crate) fn late() -> Failure {
    Failure::Refused(ErrorKind::Timeout, "the server took too long to answer".to_owned())
}
