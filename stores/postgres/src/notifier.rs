//! Notifies other processes of new rows in the background: many commits at once, never delaying a writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use pillarbox_store_kit::{Pools, Purpose, ServerFailure as _};

use crate::connection::Connector;
use crate::sql::Sql;

/// Commits within this time after a notification share the next one.
const GATHER: Duration = Duration::from_millis(2);

const IDLE: u8 = 0;
const SENDING: u8 = 1;
const AGAIN: u8 = 2;

/// Sends one notification at a time; requests that arrive meanwhile cause one more.
#[derive(Default)]
pub(crate) struct Notifier(Arc<AtomicU8>);

impl Notifier {
    /// Sends a notification soon, without waiting for it. A failure costs only
    /// latency, because readers also poll.
    pub(crate) fn notify(&self, pools: &Arc<Pools<Connector>>, sql: &Arc<Sql>, channel: &str) {
        // A running task finds AGAIN and sends once more.
        if self.0.swap(AGAIN, Ordering::AcqRel) != IDLE {
            return;
        }
        let (state, shared) = (Arc::clone(&self.0), Arc::clone(pools));
        let (sql, channel) = (Arc::clone(sql), channel.to_owned());
        let spawned = pools.spawn(async move {
            while state.swap(SENDING, Ordering::AcqRel) == AGAIN {
                let (sql, channel) = (Arc::clone(&sql), channel.clone());
                let told = shared.call(Purpose::General, sql, channel, |session, sql, channel| {
                    Box::pin(async move {
                        session.query(&sql.notify).bind(channel).execute(&mut session.connection).await?;
                        Ok(())
                    })
                });
                if let Err(failure) = told.await {
                    let error = failure.into_store_error("notify", "postgres");
                    tracing::debug!(%error, "NOTIFY failed; other nodes will find the rows by polling");
                }
                tokio::time::sleep(GATHER).await;
                // Fails if a request has come since the notification was sent; the loop then sends another.
                if state.compare_exchange(SENDING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    return;
                }
            }
        });
        if !spawned {
            self.0.store(IDLE, Ordering::Release);
        }
    }
}
