//! An endpoint that answers at once and does nothing else.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// What is done with the body of each request.
type OnRequest = Arc<dyn Fn(&[u8], Instant) + Send + Sync>;

/// A running endpoint.
pub(super) struct Endpoint {
    pub(super) url: String,
    _server: JoinSet<()>,
}

impl Endpoint {
    pub(super) async fn start() -> anyhow::Result<Self> {
        Self::looking(Arc::new(|_, _| ())).await
    }

    pub(super) async fn looking(look: OnRequest) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                connections.spawn(serve(stream, Arc::clone(&look)));
            }
        });
        Ok(Self { url, _server: server })
    }
}

/// Serves requests with a `content-length`, one after another, until the other side is done.
async fn serve(mut stream: TcpStream, look: OnRequest) {
    let mut bytes = Vec::with_capacity(64 * 1_024);
    loop {
        let length = loop {
            if let Some(length) = whole(&bytes) {
                break length;
            }
            match stream.read_buf(&mut bytes).await {
                Ok(1..) => {}
                _ => return,
            }
        };
        look(&bytes[length.0..length.1], Instant::now());
        bytes.drain(..length.1);
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}

/// Where the body of the first request begins and ends, once it is there.
fn whole(bytes: &[u8]) -> Option<(usize, usize)> {
    let body = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..body]).ok()?;
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"))?;
    let end = body + line.split_once(':')?.1.trim().parse::<usize>().ok()?;
    (bytes.len() >= end).then_some((body, end))
}
