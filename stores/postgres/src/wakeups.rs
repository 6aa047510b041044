//! Listens for notifications from other processes: of new rows, and of nodes that leave.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::port::Wakeups;
use pillarbox_store_kit::{Pools, ServerFailure as _};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::Connector;
use crate::error::DriverError;

/// How long to wait before reconnecting after a connection was lost.
const PAUSE: Duration = Duration::from_secs(1);

/// What a notification says if a node has left. Those of new rows say nothing.
pub(crate) const LEFT: &str = "left";

/// Listens until it is dropped. Behind a pooler it stops at once and sends no wake-ups.
pub(crate) struct Listener {
    wakeups: watch::Receiver<u64>,
    departures: watch::Receiver<u64>,
    ends: CancellationToken,
    _dropped: DropGuard,
}

impl Listener {
    pub(crate) fn start(pools: &Arc<Pools<Connector>>, channel: &str) -> Self {
        let (rows, wakeups) = watch::channel(0);
        let (nodes, departures) = watch::channel(0);
        let senders = Senders { rows, nodes };
        let ends = CancellationToken::new();
        let (token, channel, shared) = (ends.clone(), channel.to_owned(), Arc::clone(pools));
        pools.spawn(async move {
            let listening = listen(shared.connector(), &channel, &senders);
            token.run_until_cancelled(listening).await;
        });
        Self { wakeups, departures, _dropped: ends.clone().drop_guard(), ends }
    }

    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups(self.wakeups.clone())
    }

    pub(crate) fn departures(&self) -> Wakeups {
        Wakeups(self.departures.clone())
    }
}

/// Where notifications are passed on to.
struct Senders {
    rows: watch::Sender<u64>,
    nodes: watch::Sender<u64>,
}

async fn listen(connector: &Connector, channel: &str, senders: &Senders) {
    loop {
        match connector.pooled().await {
            Ok(true) => {
                tracing::info!("transaction pooler detected; new rows are found by polling");
                return;
            }
            Ok(false) => {
                if let Err(failure) = forward(connector, channel, senders).await {
                    let error = failure.into_store_error("listen", "postgres");
                    tracing::debug!(%error, "listening for new rows was interrupted");
                }
            }
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Passes notifications on until the connection is lost.
async fn forward(connector: &Connector, channel: &str, senders: &Senders) -> Result<(), DriverError> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(connector.options().clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.eager_reconnect(false);
    listener.listen(channel).await?;
    loop {
        // Also wakes the reader right after connecting: rows may have come before, or
        // while the connection was lost.
        senders.rows.send_modify(|count| *count = count.wrapping_add(1));
        let Some(notification) = listener.try_recv().await? else { return Ok(()) };
        if notification.payload() == LEFT {
            senders.nodes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}
