//! The collections of one outbox, the kind of server that holds them, and how calls run on it.

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
use crate::error::DriverError;
use crate::groups::FoldState;
use crate::locked::HeldRows;
use crate::sessions::{self, Holder, Sessions};

/// The future of an operation; boxed, because it borrows the call.
pub(crate) type Work<'c, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'c>>;

/// An operation on a request. It runs again in each transaction that is begun for the request.
pub(crate) type Operation<R, T> = for<'c> fn(&'c mut Call<'_>, &'c R) -> Work<'c, T>;

/// An [`Operation`] that runs a function of the store: `step!(claim::claim)`.
macro_rules! step {
    ($function:expr) => {
        |call, request| Box::pin($function(call, request))
    };
}
pub(crate) use step;

/// The store stops retrying its own calls this long before their deadline.
pub(crate) const LAST: Duration = Duration::from_secs(1);
/// How long the server may take to end an abandoned transaction.
const RELEASE: Duration = Duration::from_secs(10);
/// The server's default transaction lifetime, assumed where the server does not report it.
const LIFETIME: Duration = Duration::from_secs(60);

/// The wire protocol version of MongoDB 6.0.
const OLDEST_WIRE: i64 = 17;

/// The capabilities of the server, as it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// A replica set member, or a router in front of replica sets. It has transactions and change streams.
    Replicated,
    /// Any other server. It applies every command at once, even a command that claims to be in a transaction.
    Alone,
}

impl Server {
    /// Asks the server. A server outside a replica set has no transactions, whatever commands it accepts.
    pub(crate) async fn ask(database: &Database) -> Result<Self, DriverError> {
        let answer = database.run_command(doc! { "hello": 1 }).await?;
        if is_too_old(&answer) {
            let detail = "the server is older than MongoDB 6.0; use 6.0 or a newer release";
            return Err(DriverError::Refused(ErrorKind::Unsupported, detail.to_owned()));
        }
        Ok(Self::read(&answer))
    }

    fn read(hello: &Document) -> Self {
        let router = hello.get_str("msg").is_ok_and(|text| text == "isdbgrid");
        let member = hello.get_str("setName").is_ok_and(|name| !name.is_empty());
        if router || member { Self::Replicated } else { Self::Alone }
    }

    /// The longest time a transaction can live. Few users may read this parameter; for others the default
    /// applies.
    pub(crate) async fn lifetime(self, database: &Database) -> Duration {
        if self == Self::Alone {
            return Duration::ZERO;
        }
        const LIMIT: &str = "transactionLifetimeLimitSeconds";
        let asked =
            database.client().database("admin").run_command(doc! { "getParameter": 1, LIMIT: 1 }).await;
        let told =
            asked.ok().and_then(|told| whole(&told, LIMIT)).and_then(|limit| u64::try_from(limit).ok());
        // The server checks for expired transactions at intervals of half the limit.
        told.map_or(LIFETIME, Duration::from_secs).mul_f32(1.5)
    }
}

fn is_too_old(hello: &Document) -> bool {
    whole(hello, "maxWireVersion").is_some_and(|version| version < OLDEST_WIRE)
}

/// How atomic the changes of a call must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The call only reads, or changes one document: no transaction.
    Single,
    /// A transaction, where the server has transactions. Conflicts are retried until the deadline.
    Together,
    /// Like `Together`, with at most this many attempts on conflicts.
    Briefly(u32),
    /// Like `Briefly`, in a session that is killed when its holder is evicted or its claim expires.
    Of(Holder, u32),
}

impl Step {
    /// The maximum number of attempts on write conflicts.
    fn tries(&self) -> u32 {
        match self {
            Self::Single | Self::Together => u32::MAX,
            Self::Briefly(tries) | Self::Of(_, tries) => *tries,
        }
    }
}

pub(crate) struct Names {
    pub(crate) event: String,
    pub(crate) meta: String,
    pub(crate) group: String,
    pub(crate) audit: String,
    pub(crate) node: String,
    pub(crate) join: String,
    pub(crate) member: String,
    /// Payloads so large that their documents had no room for other fields.
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

/// One outbox in one database; shared by all calls.
pub(crate) struct Outbox {
    pub(crate) database: Database,
    pub(crate) names: Names,
    pub(crate) table: TableName,
    pub(crate) server: Server,
    /// The time limit that the server enforces on each command. The store waits 5 s longer and then drops the
    /// connection.
    pub(crate) timeout: Duration,
    /// The longest time a transaction can live on the server.
    pub(crate) lifetime: Duration,
    pub(crate) tasks: TaskTracker,
    pub(crate) allocator: SequenceAllocator,
    pub(crate) sessions: Sessions,
    pub(crate) held: HeldRows,
    pub(crate) fold: FoldState,
    /// One permit: transactions of this process that hit a conflict retry one at a time.
    turns: Semaphore,
    /// The number of further claims that expect competition from other claimers.
    pub(crate) crowd: AtomicU32,
    /// The number of further settles that check their rows before they delete them.
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
            held: HeldRows::default(),
            fold: FoldState::default(),
            turns,
            crowd,
            doubts: AtomicU32::new(0),
            options,
        }
    }

    /// A collection of raw documents. It reads from and writes to the primary, with majority concern.
    pub(crate) fn raw(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection_with_options(name, self.options.clone())
    }

    pub(crate) fn documents(&self, name: &str) -> Collection<Document> {
        self.database.collection_with_options(name, self.options.clone())
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout + Duration::from_secs(5)
    }

    /// How long drawn sequence numbers may still get rows: a call may be in flight, or a transaction open.
    pub(crate) fn hold(&self) -> Duration {
        self.timeout.max(self.lifetime).saturating_add(GRACE)
    }

    /// Snapshot reads and majority commits, on the primary.
    pub(crate) fn transaction(&self) -> TransactionOptions {
        TransactionOptions::builder()
            .read_concern(ReadConcern::snapshot())
            .write_concern(confirmed(self.timeout))
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .max_commit_time(self.timeout)
            .build()
    }

    /// Starts a session with an open transaction.
    pub(crate) async fn begin(&self) -> Result<ClientSession, DriverError> {
        let mut session = self.database.client().start_session().await?;
        session.start_transaction().with_options(self.transaction()).await?;
        Ok(session)
    }

    /// Runs a call, in a transaction if the step needs one.
    ///
    /// A transaction that hits a write conflict is retried with growing pauses until shortly before the
    /// deadline. The server does not queue conflicting transactions, so those of this process would keep
    /// defeating each other; after its first conflict a transaction waits for the one permit of `turns`.
    pub(crate) async fn perform<R, T>(
        self: &Arc<Self>,
        step: Step,
        deadline: Instant,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, DriverError> {
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
    ) -> Result<T, DriverError> {
        let Step::Of(holder, _) = step else {
            let mut session = self.database.client().start_session().await?;
            return self.transact_in(&mut session, 0, deadline, request, work).await;
        };
        let place = self.sessions.place(holder);
        let mut noted = sessions::of(self, holder).await?;
        let ended = self.transact_in(&mut noted.session, place.fence, deadline, request, work).await;
        self.sessions.give_back(noted);
        ended
    }

    async fn transact_in<R, T>(
        self: &Arc<Self>,
        session: &mut ClientSession,
        fence: usize,
        deadline: Instant,
        request: &R,
        work: Operation<R, T>,
    ) -> Result<T, DriverError> {
        session.start_transaction().with_options(self.transaction()).await?;
        let mut call = Call::new(self, Some(session));
        call.fence = fence;
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
        // If the commit's answer was lost, its rows may still appear: the draws stay open until they expire.
        if !matches!(ended, Err(DriverError::Open(_))) {
            draws.into_iter().for_each(|draw| allocator::end(self, draw));
        }
        ended
    }

    /// Commits. If the answer is lost, sends the commit again until shortly before the deadline, which is
    /// safe: the server applies a commit once.
    pub(crate) async fn commit(
        &self,
        session: &mut ClientSession,
        deadline: Instant,
    ) -> Result<(), DriverError> {
        let (mut tried, last) = (0, deadline - LAST);
        loop {
            let asked = timeout_at(last, session.commit_transaction()).await;
            let failure = match asked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => DriverError::from(error),
                Err(_) => late(),
            };
            if !failure.leaves_commit_open() {
                return Err(failure);
            }
            if Instant::now() >= last {
                self.release(session).await;
                return Err(DriverError::Open(Box::new(failure)));
            }
            pause(tried).await;
            tried += 1;
        }
    }

    /// Kills a session whose transaction may still be open. Otherwise the server would keep its documents
    /// locked for a minute.
    ///
    /// The caller waits for half a second at most; on a busy server the kill completes in the background.
    pub(crate) async fn release(&self, session: &ClientSession) {
        let ended = doc! { "killSessions": [session.id().clone()] };
        let admin = session.client().database("admin");
        let releasing = self.tasks.spawn(async move {
            if !matches!(timeout(RELEASE, admin.run_command(ended)).await, Ok(Ok(_))) {
                tracing::debug!("could not end a transaction; it expires on the server");
            }
        });
        // The call has its answer whether or not the kill has completed.
        let _ = timeout(LAST / 2, releasing).await;
    }
}

/// Sleeps for a random time, from a quarter to five quarters of a bound. The bound is 1 ms at first and
/// doubles with each attempt, up to 128 ms. Random, so that two callers that collided do not collide again.
pub(crate) async fn pause(tried: u32) {
    let bound_us = 1_000_u64 << tried.min(7);
    let part = Uuid::new_v4().as_u128() as u64 % bound_us;
    sleep(Duration::from_micros(bound_us / 4 + part)).await;
}

/// Majority write concern with journaling.
fn confirmed(timeout: Duration) -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(Acknowledgment::Majority);
    concern.journal = Some(true);
    concern.w_timeout = Some(timeout);
    concern
}

/// The same write concern as a command option.
pub(crate) fn confirmed_document(timeout: Duration) -> Document {
    doc! { "w": "majority", "j": true, "wtimeout": i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX) }
}

pub(crate) fn late() -> DriverError {
    DriverError::Refused(ErrorKind::Timeout, "the server took too long to answer".to_owned())
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
