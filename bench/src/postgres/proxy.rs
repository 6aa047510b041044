//! A relay of bytes between a client and the server that counts the statements the client runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const ENCRYPTION_REQUEST_BYTES: u32 = 8;

/// Stops when it is dropped.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    statements: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(super) async fn start(server: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let statements = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&statements);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = server.into_split();
                let count = Arc::clone(&count);
                // A connection that ends is no fault.
                connections.spawn(async move { drop(forward(from_client, to_server, &count).await) });
                connections.spawn(async move { drop(copy(&mut from_server, &mut to_client).await) });
            }
        });
        Ok(Self { address, statements, _tasks: tasks })
    }

    /// Statements so far: simple queries and executions.
    pub(super) fn statements(&self) -> usize {
        self.statements.load(Ordering::Relaxed)
    }
}

/// Messages have a letter and a length; only the first one has no letter.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    count: &AtomicUsize,
) -> std::io::Result<()> {
    let mut letter = None;
    loop {
        let length = from.read_u32().await?;
        let mut body = vec![0; (length as usize).saturating_sub(4)];
        from.read_exact(&mut body).await?;
        if matches!(letter, Some(b'Q' | b'E')) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let mut message: Vec<u8> = letter.into_iter().collect();
        message.extend(length.to_be_bytes());
        message.extend(body);
        to.write_all(&message).await?;
        // A client that asks for encryption is told no, and begins again.
        let asked = letter.is_none() && length == ENCRYPTION_REQUEST_BYTES;
        letter = if asked { None } else { Some(from.read_u8().await?) };
    }
}
