//! Wake-ups for new rows: from a change stream, or by polling the counter where the server has none.

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
use crate::error::DriverError;
use crate::number::COUNTER;
use crate::outbox::{Outbox, Server};

/// The pause before a lost stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the counter is polled after the server refused a change stream, before the next attempt.
const REFUSED: Duration = Duration::from_secs(60);
/// How long the server waits for rows before it returns an empty batch.
const WAIT: Duration = Duration::from_secs(1);
/// The interval between polls of the counter.
const STEP: Duration = Duration::from_millis(500);
/// How long writes of this process are collected before its reader is woken.
const GATHER: Duration = Duration::from_millis(20);

/// Listens for new rows until it is stopped or dropped.
pub(crate) struct Listener {
    told: Arc<Told>,
    ends: CancellationToken,
    _dropped: DropGuard,
}

/// The subscribers to wake-ups.
struct Told {
    sender: watch::Sender<u64>,
    /// Whether a wake-up for rows of this process is already scheduled.
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
        // The listening task must not own the outbox, or the outbox would never be dropped.
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

    /// Stops listening.
    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups(self.told.sender.subscribe())
    }

    /// Wakes this process's own reader shortly after a write.
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

/// Sends the wake-up when dropped, even if the runtime shuts down first.
struct Telling(Arc<Told>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.due.store(false, Ordering::Release);
        self.0.tell();
    }
}

/// What to do until the stream is opened again: pause after an interruption, poll the counter after a
/// refusal.
fn after<'a>(failure: DriverError, meta: &'a Collection<Document>, told: &'a Told) -> BoxFuture<'a, ()> {
    let is_refused = failure.is_refusal();
    let error = failure.into_store_error("listen", "mongodb");
    if is_refused {
        tracing::warn!(%error, "change streams are refused: the counter is polled instead");
        return async { drop(timeout(REFUSED, look(meta, told)).await) }.boxed();
    }
    tracing::debug!(%error, "listening for new rows was interrupted");
    sleep(PAUSE).boxed()
}

/// Polls the counter and sends a wake-up whenever it has moved.
async fn look(meta: &Collection<Document>, told: &Told) {
    let mut seen = None;
    loop {
        match meta.find_one(doc! { "_id": COUNTER }).await {
            Ok(counter) => {
                let value = counter.and_then(|counter| whole(&counter, "value"));
                // The first poll always wakes: rows may have been written before it.
                if seen.replace(value) != Some(value) {
                    told.tell();
                }
                sleep(STEP).await;
            }
            Err(error) => {
                let error = DriverError::from(error).into_store_error("listen", "mongodb");
                tracing::debug!(%error, "listening for new rows was interrupted");
                sleep(PAUSE).await;
            }
        }
    }
}

/// An open change stream.
struct Stream {
    database: Database,
    collection: String,
    session: ClientSession,
    cursor: i64,
}

impl Stream {
    async fn open(events: &Collection<Document>, database: &Database) -> Result<Self, DriverError> {
        let added = doc! { "$match": { "operationType": "insert" } };
        let nothing_else = doc! { "$project": { "_id": 1 } };
        let command = doc! {
            "aggregate": events.name(),
            "pipeline": [doc! { "$changeStream": {} }, added, nothing_else],
            "cursor": {},
            "readConcern": { "level": "majority" },
        };
        // Later commands on the cursor must use the session that opened it.
        let mut session = database.client().start_session().await?;
        let answer = database.run_command(command).session(&mut session).await?;
        let cursor = answer.get_document("cursor").ok().and_then(|cursor| whole(cursor, "id"));
        let cursor = cursor.ok_or_else(DriverError::unreadable)?;
        Ok(Self { database: database.clone(), collection: events.name().to_owned(), session, cursor })
    }

    /// Waits for rows; returns false if none arrived within `WAIT`.
    async fn next(&mut self) -> Result<bool, DriverError> {
        let wait_ms = i64::try_from(WAIT.as_millis()).unwrap_or(i64::MAX);
        let more =
            doc! { "getMore": self.cursor, "collection": self.collection.as_str(), "maxTimeMS": wait_ms };
        let answer = self.database.run_command(more).session(&mut self.session).await?;
        let cursor = answer.get_document("cursor").map_err(|_| DriverError::unreadable())?;
        if whole(cursor, "id") == Some(0) {
            return Err(DriverError::unreadable());
        }
        Ok(cursor.get_array("nextBatch").is_ok_and(|batch| !batch.is_empty()))
    }

    /// Closes the cursor on the server at once. The driver would do so later, or never in a process that
    /// exits.
    async fn close(self) {
        let kill = doc! { "killCursors": self.collection, "cursors": [self.cursor] };
        let killed = timeout(PAUSE, self.database.run_command(kill)).await;
        if !matches!(killed, Ok(Ok(_))) {
            tracing::debug!("could not close a change stream; it expires on the server");
        }
    }
}

/// Turns inserts into wake-ups until the stream is lost or the listener is stopped.
async fn forward(
    events: &Collection<Document>,
    database: &Database,
    told: &Told,
    ends: &CancellationToken,
) -> Result<(), DriverError> {
    let Some(opened) = ends.run_until_cancelled(Stream::open(events, database)).await else { return Ok(()) };
    let mut stream = opened?;
    // Rows may have been written before the stream opened, or while it was lost.
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
