//! Limits the connections of the admin server in number, idle time and age.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Maximum open connections. Further clients wait to be accepted.
const CONNECTIONS: usize = 64;
/// Idle timeout of a connection, which also ends a request that stalls.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum age of a connection.
const LONGEST: Duration = Duration::from_secs(600);
/// Pause after a failed accept, which would otherwise fail in a busy loop when file descriptors run out.
const PAUSE: Duration = Duration::from_millis(200);

/// A listener whose connections are bounded in number and time.
pub(super) struct BoundedListener {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl BoundedListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (BoundedStream::new(stream, permit), address),
                Err(error) => {
                    tracing::debug!(%error, "accepting failed");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with an idle timeout and a maximum age.
pub(super) struct BoundedStream {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    end: Instant,
    _permit: Option<OwnedSemaphorePermit>,
}

impl BoundedStream {
    fn new(stream: TcpStream, permit: Option<OwnedSemaphorePermit>) -> Self {
        let now = Instant::now();
        Self { stream, silence: Box::pin(sleep_until(now + SILENCE)), end: now + LONGEST, _permit: permit }
    }

    /// Restarts the idle timeout, within the maximum age.
    fn moved(&mut self) {
        let until = (Instant::now() + SILENCE).min(self.end);
        self.silence.as_mut().reset(until);
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.silence.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(read) => {
                self.moved();
                Poll::Ready(read)
            }
            Poll::Pending if self.is_over(context) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(context, bytes) {
            Poll::Ready(written) => {
                self.moved();
                Poll::Ready(written)
            }
            Poll::Pending if self.is_over(context) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
