//! Listening for rows that other processes write, by a change stream.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mongodb::bson::{Document, doc};
use pillarbox::port::Hints;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::Failure;
use crate::outbox::Outbox;

/// How long a lost stream is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Listens until it is dropped.
pub(crate) struct Listener {
    hints: watch::Receiver<u64>,
    ends: CancellationToken,
    _dropped: DropGuard,
}

impl Listener {
    pub(crate) fn start(outbox: &Arc<Outbox>) -> Self {
        let (sender, hints) = watch::channel(0);
        let ends = CancellationToken::new();
        // What listens must not keep the outbox alive, or nobody would ever drop it.
        let events = outbox.documents(&outbox.names.event);
        let token = ends.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let listening = async move {
                loop {
                    if let Err(failure) = forward(&events, &sender).await {
                        let error = failure.into_store_error("listen", "mongodb");
                        tracing::debug!(%error, "listening for new rows was interrupted");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            let task = async move {
                token.run_until_cancelled(listening).await;
            };
            outbox.tasks.spawn_on(task, &runtime);
        }
        Self { hints, _dropped: ends.clone().drop_guard(), ends }
    }

    /// Listens no more.
    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn hints(&self) -> Hints {
        Hints(self.hints.clone())
    }
}

/// Passes on that rows were added, until the stream is lost.
async fn forward(events: &mongodb::Collection<Document>, sender: &watch::Sender<u64>) -> Result<(), Failure> {
    let added = doc! { "$match": { "operationType": "insert" } };
    let nothing_else = doc! { "$project": { "_id": 1 } };
    let watch = events.watch().pipeline([added, nothing_else]);
    let mut stream = watch.await?.with_type::<Document>();
    loop {
        // Rows may have come before the first change, and while a stream was lost.
        sender.send_modify(|count| *count = count.wrapping_add(1));
        match stream.next().await {
            Some(change) => drop(change?),
            None => return Ok(()),
        }
    }
}
