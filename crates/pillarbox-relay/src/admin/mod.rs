//! The admin server: health, metrics, and actions on the groups of each source.

mod groups;
mod guard;
mod listener;
mod refusal;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::AdminConfig;
use crate::error::RelayStartError;
use crate::relay::Shared;
use guard::Guard;
use listener::BoundedListener;

/// How long shutdown waits for requests in progress.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The running admin server. It stops accepting connections when it is closed or dropped.
pub(crate) struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl Server {
    pub(crate) async fn start(config: AdminConfig, shared: Arc<Shared>) -> Result<Self, RelayStartError> {
        let failed = |source| RelayStartError::Admin { address: config.address, source };
        let listener = TcpListener::bind(config.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let router = routes::router(shared, Guard::new(address, config.token.as_ref()));
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let serving = axum::serve(BoundedListener::new(listener), router)
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        tracker.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the admin server ended");
            }
        });
        tracing::info!(%address, "admin server listens");
        Ok(Self { address, stop, tracker })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.tracker.close();
        let _ = timeout(SHUTDOWN_GRACE, self.tracker.wait()).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
