//! The collections of one outbox, what kind of server holds them, and how calls run on it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{
    Acknowledgment, CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions,
    WriteConcern,
};
use mongodb::{ClientSession, Collection, Database};
use pillarbox::model::TableName;
use pillarbox::port::ErrorKind;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::allocator::{self, GRACE, SequenceAllocator};
use crate::call::{Call, whole};
use crate::error::Failure;
use crate::sessions::{self, Holder, Sessions};

/// What a call does; boxed, because it borrows the call.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'c>>;

/// What is done for a request. It runs again with each transaction that is begun for it.
pub(crate) type Operation<R, T> = for<'c> fn(&'c mut Call<'_>, &'c R) -> Work<'c, T>;

/// How long before its deadline a call of the store's own is tried no more.
pub(crate) const LAST: Duration = Duration::from_secs(1);
/// How long the server may take to end a transaction that was given up.
const RELEASE: Duration = Duration::from_secs(10);
/// How long a server lets a transaction live, if it does not tell.
const LIFETIME: Duration = Duration::from_secs(60);

/// The version of the protocol that MongoDB 6.0 speaks.
const OLDEST_WIRE: i64 = 17;

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
        if is_too_old(&answer) {
            tracing::warn!("this server is older than MongoDB 6: the store was never tried on it");
        }
        Ok(Self::read(&answer))
    }

    fn read(hello: &Document) -> Self {
        let router = hello.get_str("msg").is_ok_and(|text| text == "isdbgrid");
        let member = hello.get_str("setName").is_ok_and(|name| !name.is_empty());
        if router || member { Self::Replicated } else { Self::Alone }
    }

    /// How long the server lets a transaction live at most. Few users may ask; the default counts for the others.
    pub(crate) async fn lifetime(self, database: &Database) -> Duration {
        if self == Self::Alone {
            return Duration::ZERO;
        }
        const LIMIT: &str = "transactionLifetimeLimitSeconds";
        let asked =
            database.client().database("admin").run_command(doc! { "getParameter": 1, LIMIT: 1 }).await;
        let told =
            asked.ok().and_then(|told| whole(&told, LIMIT)).and_then(|limit| u64::try_from(limit).ok());
        // It looks for those that are too old every half of that.
        told.map_or(LIFETIME, Duration::from_secs).mul_f32(1.5)
    }
}

/// Whether a server that answered so to `hello` is older than MongoDB 6.
fn is_too_old(hello: &Document) -> bool {
    whole(hello, "maxWireVersion").is_some_and(|version| version < OLDEST_WIRE)
}

/// Whether what a call changes must change together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It only reads, or changes one document.
    Single,
    /// In a transaction, where the server has them.
    Together,
    /// The same, and it gives up after so many tries where it loses against others.
    Briefly(u32),
    /// The same, in a session that is ended with its holder.
    Of(Holder, u32),
}

impl Step {
    /// How often it is tried where it loses against others.
    fn tries(&self) -> u32 {
        match self {
            Self::Single | Self::Together => u32::MAX,
            Self::Briefly(tries) | Self::Of(_, tries) => *tries,
        }
    }
}

/// The names of the collections.
pub(crate) struct Names {
    pub(crate) event: String,
    pub(crate) meta: String,
    pub(crate) group: String,
    pub(crate) audit: String,
    pub(crate) node: String,
    pub(crate) join: String,
    pub(crate) member: String,
    /// Payloads that left no room for anything else in their documents.
    pub(crate) oversized: String,
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
            join: beside("join"),
            member: beside("join_member"),
            oversized: beside("oversized"),
        }
    }
}

/// One outbox in one database.
pub(crate) struct Outbox {
    pub(crate) database: Database,
    pub(crate) names: Names,
    pub(crate) table: TableName,
    pub(crate) server: Server,
    /// What the server is told to give up after; the store waits a little longer and then throws the connection away.
    pub(crate) timeout: Duration,
    /// How long a transaction may live.
    lifetime: Duration,
    pub(crate) tasks: TaskTracker,
    pub(crate) allocator: SequenceAllocator,
    pub(crate) sessions: Sessions,
    /// One for the transactions that have lost against others.
    turns: Semaphore,
    /// For how many claims it is remembered that others claim the same rows.
    pub(crate) crowd: AtomicU32,
    /// For how many settles it is remembered that rows were not as they should be.
    pub(crate) doubts: AtomicU32,
    options: CollectionOptions,
}

impl Outbox {
    pub(crate) fn new(
        database: Database,
        table: TableName,
        server: (Server, Duration),
        timeout: Duration,
    ) -> Self {
        let (server, lifetime) = server;
        let mut options = CollectionOptions::default();
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
        options.write_concern = Some(confirmed(timeout));
        options.read_concern = match server {
            Server::Replicated => Some(ReadConcern::majority()),
            Server::Alone => None,
        };
        let (names, tasks, crowd) = (Names::new(&table), TaskTracker::new(), AtomicU32::new(0));
        let (allocator, sessions, turns) = (SequenceAllocator::new(), Sessions::default(), Semaphore::new(1));
        Self {
            database,
            names,
            table,
            server,
            timeout,
            lifetime,
            tasks,
            allocator,
            sessions,
            turns,
            crowd,
            doubts: AtomicU32::new(0),
            options,
        }
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

    /// How long numbers that were drawn may still get their rows: a call may be under way, or a transaction open.
    pub(crate) fn hold(&self) -> Duration {
        self.timeout.max(self.lifetime).saturating_add(GRACE)
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
    ///
    /// A transaction that loses against others is begun again until shortly before the deadline, with a growing pause between.
    /// Those of this process that have lost go one by one: the server makes no queue of them, and they would lose to each other.
    pub(crate) async fn perform<R, T>(
        self: &Arc<Self>,
        step: Step,
        deadline: Instant,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, Failure> {
        if step == Step::Single || self.server == Server::Alone {
            return work(&mut Call::new(self, None), request).await;
        }
        let mut turn = None;
        for tried in 1..step.tries() {
            match self.transact(&step, deadline, request, work).await {
                Err(failure) if failure.is_transient() && Instant::now() + LAST < deadline => {
                    if turn.is_none() {
                        turn = timeout_at(deadline - LAST, self.turns.acquire()).await.ok();
                    }
                    pause(tried).await
                }
                ended => return ended,
            }
        }
        self.transact(&step, deadline, request, work).await
    }

    async fn transact<R, T>(
        self: &Arc<Self>,
        step: &Step,
        deadline: Instant,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, Failure> {
        let Step::Of(holder, _) = step else {
            let mut session = self.database.client().start_session().await?;
            return self.transact_in(&mut session, deadline, request, work).await;
        };
        let mut noted = sessions::of(self, holder).await?;
        let ended = self.transact_in(&mut noted.session, deadline, request, work).await;
        self.sessions.give_back(noted);
        ended
    }

    async fn transact_in<R, T>(
        self: &Arc<Self>,
        session: &mut ClientSession,
        deadline: Instant,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, Failure> {
        session.start_transaction().with_options(self.transaction()).await?;
        let mut call = Call::new(self, Some(session));
        let answer = work(&mut call, request).await;
        let draws = std::mem::take(&mut call.draws);
        drop(call);
        let ended = match answer {
            Ok(value) => self.commit(session, deadline).await.map(|()| value),
            Err(failure) => {
                if session.abort_transaction().await.is_err() {
                    self.release(session).await;
                }
                Err(failure)
            }
        };
        // Rows of a commit whose answer was lost may still come.
        if !matches!(ended, Err(Failure::Open(_))) {
            draws.into_iter().for_each(|draw| allocator::end(self, draw));
        }
        ended
    }

    /// Commits, and asks again until shortly before the deadline where the answer was lost: a commit that is sent twice happens
    /// once.
    pub(crate) async fn commit(&self, session: &mut ClientSession, deadline: Instant) -> Result<(), Failure> {
        let (mut tried, last) = (0, deadline - LAST);
        loop {
            let asked = timeout_at(last, session.commit_transaction()).await;
            let failure = match asked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => Failure::from(error),
                Err(_) => late(),
            };
            if !failure.leaves_commit_open() {
                return Err(failure);
            }
            if Instant::now() >= last {
                self.release(session).await;
                return Err(Failure::Open(Box::new(failure)));
            }
            pause(tried).await;
            tried += 1;
        }
    }

    /// Has the server end a transaction of which nobody knows whether it has ended: it would hold its documents for a minute.
    ///
    /// The call waits for that only briefly. On a busy server it goes on without the call.
    pub(crate) async fn release(&self, session: &ClientSession) {
        let ended = doc! { "killSessions": [session.id().clone()] };
        let admin = session.client().database("admin");
        let releasing = self.tasks.spawn(async move {
            if !matches!(timeout(RELEASE, admin.run_command(ended)).await, Ok(Ok(_))) {
                tracing::debug!("a transaction was left to run out");
            }
        });
        // Whether it is through by then or not, the call has its answer.
        let _ = timeout(LAST / 2, releasing).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-127
    #[test]
    fn what_a_server_is_shows_in_its_answer_to_hello() {
        let alone = doc! { "isWritablePrimary": true, "maxWireVersion": 17 };
        let member = doc! { "setName": "rs0", "maxWireVersion": 17 };
        let router = doc! { "msg": "isdbgrid", "maxWireVersion": 21 };
        assert_eq!(
            [&alone, &member, &router].map(Server::read),
            [Server::Alone, Server::Replicated, Server::Replicated]
        );
        assert!(![&alone, &member, &router].into_iter().any(is_too_old));
        for wire in [13_i32, 6] {
            assert!(is_too_old(&doc! { "setName": "rs0", "maxWireVersion": wire }), "MongoDB 5 and 3.6");
        }
    }
}
