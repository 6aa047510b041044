//! Listens for notifications of new rows from other processes.

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

/// Listens until it is dropped. Behind a pooler it stops at once and sends no wake-ups.
pub(crate) struct Listener {
    wakeups: watch::Receiver<u64>,
    ends: CancellationToken,
    _dropped: DropGuard,
}

impl Listener {
    pub(crate) fn start(pools: &Arc<Pools<Connector>>, channel: &str) -> Self {
        let (sender, wakeups) = watch::channel(0);
        let ends = CancellationToken::new();
        let (token, channel, shared) = (ends.clone(), channel.to_owned(), Arc::clone(pools));
        pools.spawn(async move {
            let listening = listen(shared.connector(), &channel, &sender);
            token.run_until_cancelled(listening).await;
        });
        Self { wakeups, _dropped: ends.clone().drop_guard(), ends }
    }

    pub(crate) fn stop(&self) {
        self.ends.cancel();
    }

    pub(crate) fn wakeups(&self) -> Wakeups {
        Wakeups(self.wakeups.clone())
    }
}

async fn listen(connector: &Connector, channel: &str, sender: &watch::Sender<u64>) {
    loop {
        match connector.pooled().await {
            Ok(true) => {
                tracing::info!("transaction pooler detected; new rows are found by polling");
                return;
            }
            Ok(false) => {
                if let Err(failure) = forward(connector, channel, sender).await {
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
async fn forward(
    connector: &Connector,
    channel: &str,
    sender: &watch::Sender<u64>,
) -> Result<(), DriverError> {
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
        sender.send_modify(|count| *count = count.wrapping_add(1));
        if listener.try_recv().await?.is_none() {
            return Ok(());
        }
    }
}
