//! Wakeups of new rows: by a change stream, or by a look at the counter where the server has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mongodb::bson::{Document, doc};
use mongodb::{ClientSession, Collection, Database};
use pillarbox::port::Wakeups;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::call::whole;
use crate::error::Failure;
use crate::number::COUNTER;
use crate::outbox::{Outbox, Server};

/// How long a lost stream is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How long change streams are not asked for again that were refused.
const REFUSED: Duration = Duration::from_secs(60);
/// How long the server waits for rows before it answers that there are none.
const WAIT: Duration = Duration::from_secs(1);
/// How often the counter is looked at.
const STEP: Duration = Duration::from_millis(500);
/// How long rows of this process wait for others before its reader is told of them.
const GATHER: Duration = Duration::from_millis(20);

/// Listens until it is dropped.
pub(crate) struct Listener {
    told: Arc<Told>,
    ends: CancellationToken,
    _dropped: DropGuard,
}

/// Who is told of new rows.
struct Told {
    sender: watch::Sender<u64>,
    /// Whether a task is about to tell of rows of this process.
    due: AtomicBool,
}

impl Told {
    fn tell(&self) {
        self.sender.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Listener {
    pub(crate) fn start(outbox: &Arc<Outbox>) -> Self {
        let told = Arc::new(Told { sender: watch::Sender::new(0), due: AtomicBool::new(false) });
        let ends = CancellationToken::new();
        // What listens must not keep the outbox alive, or nobody would ever drop it.
        let (events, meta) = (outbox.documents(&outbox.names.event), outbox.documents(&outbox.names.meta));
        let (token, telling, server) = (ends.clone(), Arc::clone(&told), outbox.server);
        let database = outbox.database.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let listening = async move {
                while !token.is_cancelled() {
                    let ended = match server {
                        Server::Replicated => forward(&events, &database, &telling, &token).await,
                        Server::Alone => Ok(()),
                    };
                    let polling = match ended {
                        Ok(()) => look(&meta, &telling).boxed(),
                        Err(failure) => after(failure, &meta, &telling),
                    };
                    token.run_until_cancelled(polling).await;
                }
            };
            outbox.tasks.spawn_on(listening, &runtime);
        }
        Self { told, _dropped: ends.clone().drop_guard(), ends }
    }

    /// Listens no more.
    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups(self.told.sender.subscribe())
    }

    /// This process has written rows: its own reader is told soon.
    pub(crate) fn written(&self, outbox: &Outbox) {
        if self.told.due.swap(true, Ordering::AcqRel) {
            return;
        }
        let telling = Telling(Arc::clone(&self.told));
        outbox.tasks.spawn(async move {
            sleep(GATHER).await;
            drop(telling);
        });
    }
}

/// Tells when it is dropped, also with a runtime that ends.
struct Telling(Arc<Told>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.due.store(false, Ordering::Release);
        self.0.tell();
    }
}

/// What is done until the stream is opened again: one that was refused is not asked for again soon, and the counter is
/// looked at meanwhile.
fn after<'a>(failure: Failure, meta: &'a Collection<Document>, told: &'a Told) -> BoxFuture<'a, ()> {
    let is_refused = failure.is_refusal();
    let error = failure.into_store_error("listen", "mongodb");
    if is_refused {
        tracing::warn!(%error, "change streams are refused: the counter is polled instead");
        return async { drop(timeout(REFUSED, look(meta, told)).await) }.boxed();
    }
    tracing::debug!(%error, "listening for new rows was interrupted");
    sleep(PAUSE).boxed()
}

/// Looks at the counter, where there are no change streams.
async fn look(meta: &Collection<Document>, told: &Told) {
    let mut seen = None;
    loop {
        match meta.find_one(doc! { "_id": COUNTER }).await {
            Ok(counter) => {
                let value = counter.and_then(|counter| whole(&counter, "value"));
                // Rows may have come before the first look.
                if seen.replace(value) != Some(value) {
                    told.tell();
                }
                sleep(STEP).await;
            }
            Err(error) => {
                let error = Failure::from(error).into_store_error("listen", "mongodb");
                tracing::debug!(%error, "listening for new rows was interrupted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// A change stream that is open on the server.
struct Stream {
    database: Database,
    collection: String,
    session: ClientSession,
    cursor: i64,
}

impl Stream {
    async fn open(events: &Collection<Document>, database: &Database) -> Result<Self, Failure> {
        let added = doc! { "$match": { "operationType": "insert" } };
        let nothing_else = doc! { "$project": { "_id": 1 } };
        let command = doc! {
            "aggregate": events.name(),
            "pipeline": [doc! { "$changeStream": {} }, added, nothing_else],
            "cursor": {},
            "readConcern": { "level": "majority" },
        };
        // A cursor belongs to its session.
        let mut session = database.client().start_session().await?;
        let answer = database.run_command(command).session(&mut session).await?;
        let cursor = answer.get_document("cursor").ok().and_then(|cursor| whole(cursor, "id"));
        let cursor = cursor.ok_or_else(Failure::unreadable)?;
        Ok(Self { database: database.clone(), collection: events.name().to_owned(), session, cursor })
    }

    /// Waits for rows; false if none came for a while.
    async fn next(&mut self) -> Result<bool, Failure> {
        let wait_ms = i64::try_from(WAIT.as_millis()).unwrap_or(i64::MAX);
        let more =
            doc! { "getMore": self.cursor, "collection": self.collection.as_str(), "maxTimeMS": wait_ms };
        let answer = self.database.run_command(more).session(&mut self.session).await?;
        let cursor = answer.get_document("cursor").map_err(|_| Failure::unreadable())?;
        if whole(cursor, "id") == Some(0) {
            return Err(Failure::unreadable());
        }
        Ok(cursor.get_array("nextBatch").is_ok_and(|batch| !batch.is_empty()))
    }

    /// Has the server let go of it; the driver would do so some time later, or not at all in a process that ends.
    async fn close(self) {
        let kill = doc! { "killCursors": self.collection, "cursors": [self.cursor] };
        let killed = timeout(PAUSE, self.database.run_command(kill)).await;
        if !matches!(killed, Ok(Ok(_))) {
            tracing::debug!("a change stream was left to run out");
        }
    }
}

/// Passes on that rows were added, until the stream is lost or nobody listens.
async fn forward(
    events: &Collection<Document>,
    database: &Database,
    told: &Told,
    ends: &CancellationToken,
) -> Result<(), Failure> {
    let Some(opened) = ends.run_until_cancelled(Stream::open(events, database)).await else { return Ok(()) };
    let mut stream = opened?;
    // Rows may have come before the first change, and while a stream was lost.
    told.tell();
    let ended = loop {
        match ends.run_until_cancelled(stream.next()).await {
            Some(Ok(true)) => told.tell(),
            Some(Ok(false)) => {}
            Some(Err(failure)) => break Err(failure),
            None => break Ok(()),
        }
    };
    stream.close().await;
    ended
}
