//! Connections of the admin server: so many at once, and none that stays silent.

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

/// Connections at once; others wait to be accepted.
const CONNECTIONS: usize = 64;
/// A connection on which nothing moves for so long is closed, requests that are half sent with it.
const SILENCE: Duration = Duration::from_secs(30);
/// No connection is older.
const LONGEST: Duration = Duration::from_secs(600);
/// The pause after accepting has failed, as it does when there are too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// A listener whose connections are bounded in number and time.
pub(super) struct Patient {
    listener: TcpListener,
    room: Arc<Semaphore>,
}

impl Patient {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(CONNECTIONS)) }
    }
}

impl Listener for Patient {
    type Io = Bounded;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Bounded, SocketAddr) {
        let permit = Arc::clone(&self.room).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (Bounded::new(stream, permit), address),
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

/// A connection that ends by itself.
pub(super) struct Bounded {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    end: Instant,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Bounded {
    fn new(stream: TcpStream, permit: Option<OwnedSemaphorePermit>) -> Self {
        let now = Instant::now();
        Self { stream, silence: Box::pin(sleep_until(now + SILENCE)), end: now + LONGEST, _permit: permit }
    }

    /// Something moved: the silence begins anew, up to the end of the connection.
    fn moved(&mut self) {
        let until = (Instant::now() + SILENCE).min(self.end);
        self.silence.as_mut().reset(until);
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.silence.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for Bounded {
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

impl AsyncWrite for Bounded {
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
