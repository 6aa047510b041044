//! Serves the router, with limits on connections in number, time and headers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

use crate::connections::{ConnectionLimits, ConnectionPermit, InReserve};
use crate::routes::AdminApi;

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(5);
/// The same in the reserve.
const HEAD_IN_RESERVE: Duration = Duration::from_secs(2);
/// Maximum age of a connection.
const LONGEST: Duration = Duration::from_secs(300);
/// Maximum age in the reserve.
const LONGEST_IN_RESERVE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, which would otherwise fail in a busy loop when file descriptors run out.
const PAUSE: Duration = Duration::from_millis(200);
/// How long shutdown waits for requests in progress.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A running admin server. It stops accepting connections when it is closed or dropped.
pub struct AdminServer {
    address: SocketAddr,
    stop: CancellationToken,
    tracker: TaskTracker,
}

impl AdminServer {
    /// Listens on an address. On a loopback address, the Host header of requests must name this machine.
    pub async fn start(address: SocketAddr, api: AdminApi) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let router = if address.ip().is_loopback() { api.local_only() } else { api }.router();
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        tracker.spawn(accept(listener, router, stop.clone(), tracker.clone()));
        tracing::info!(%address, "admin server listens");
        Ok(Self { address, stop, tracker })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections and waits a short time for requests in progress.
    pub async fn close(self) {
        self.stop.cancel();
        self.tracker.close();
        let _ = timeout(SHUTDOWN_GRACE, self.tracker.wait()).await;
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, router: Router, stop: CancellationToken, tracker: TaskTracker) {
    let limits = Arc::new(ConnectionLimits::default());
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let permit = limits.admit(peer.ip());
                tracker.spawn(serve(stream, peer, permit, router.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::debug!(%error, "accepting failed");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection until it ends, is too old, has to make room or the server stops.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
    router: Router,
    stop: CancellationToken,
) {
    let in_reserve = permit.is_in_reserve();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        if in_reserve {
            request.extensions_mut().insert(InReserve);
        }
        async move { Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|never| match never {})) }
    });
    let (head, longest) = if in_reserve { (HEAD_IN_RESERVE, LONGEST_IN_RESERVE) } else { (HEAD, LONGEST) };
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(head).keep_alive(!in_reserve);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(longest) => return,
        () = permit.revoked() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = timeout(SHUTDOWN_GRACE, connection).await;
}
