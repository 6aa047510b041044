//! Hints of new rows: by a change stream, or by a look at the counter where the server has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use mongodb::bson::{Document, doc};
use pillarbox::port::Hints;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::call::whole;
use crate::error::Failure;
use crate::number::COUNTER;
use crate::outbox::{Outbox, Server};

/// How long a lost stream is left alone.
const PAUSE: Duration = Duration::from_secs(1);
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
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let listening = async move {
                loop {
                    let ended = match server {
                        Server::Replicated => forward(&events, &telling).await,
                        Server::Alone => look(&meta, &telling).await,
                    };
                    if let Err(failure) = ended {
                        let error = failure.into_store_error("listen", "mongodb");
                        tracing::debug!(%error, "listening for new rows was interrupted");
                    }
                    sleep(PAUSE).await;
                }
            };
            let task = async move {
                token.run_until_cancelled(listening).await;
            };
            outbox.tasks.spawn_on(task, &runtime);
        }
        Self { told, _dropped: ends.clone().drop_guard(), ends }
    }

    /// Listens no more.
    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn hints(&self) -> Hints {
        Hints(self.told.sender.subscribe())
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

/// Looks at the counter, where a server has no change streams.
async fn look(meta: &mongodb::Collection<Document>, told: &Told) -> Result<(), Failure> {
    let mut seen = None;
    loop {
        let counter = meta.find_one(doc! { "_id": COUNTER }).await?;
        let value = counter.and_then(|counter| whole(&counter, "value"));
        // Rows may have come before the first look.
        if seen.replace(value) != Some(value) {
            told.tell();
        }
        sleep(STEP).await;
    }
}

/// Passes on that rows were added, until the stream is lost.
async fn forward(events: &mongodb::Collection<Document>, told: &Told) -> Result<(), Failure> {
    let added = doc! { "$match": { "operationType": "insert" } };
    let nothing_else = doc! { "$project": { "_id": 1 } };
    let watch = events.watch().pipeline([added, nothing_else]);
    let mut stream = watch.await?.with_type::<Document>();
    loop {
        // Rows may have come before the first change, and while a stream was lost.
        told.tell();
        match stream.next().await {
            Some(change) => drop(change?),
            None => return Ok(()),
        }
    }
}
