//! The wire between a driver and the server: it remembers what is sent, can hold answers back, and can be cut.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_postgres::tokio_postgres::config::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::kit::Kit;

/// What takes this long never comes.
pub(crate) const NEVER: Duration = Duration::from_secs(20);
const BUFFER: usize = 8_192;

/// Where a connection breaks, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never hears of COMMIT.
    BeforeCommit,
    /// COMMIT is done, and the answer to it is lost.
    AfterCommit,
}

#[derive(Default)]
struct State {
    sent: Vec<u8>,
    held: bool,
    /// What breaks the connection that sends this and then COMMIT.
    cut: Option<(Cut, &'static [u8])>,
}

/// Passes bytes on, for any number of connections.
pub(crate) struct Wire {
    pub(crate) port: u16,
    state: watch::Sender<State>,
    tasks: TaskTracker,
}

impl Wire {
    /// Between new connections and the server of the tests.
    pub(crate) async fn to_server(kit: &Kit) -> Arc<Self> {
        let config = kit.config();
        let Host::Tcp(host) = config.get_hosts()[0].clone() else { panic!("a server on TCP") };
        let server = (host, config.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let wire = Arc::new(Self { port, state: watch::Sender::default(), tasks: TaskTracker::new() });
        let accepting = Arc::clone(&wire);
        wire.tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server.clone()).await.unwrap();
                let passing = Arc::clone(&accepting);
                accepting.tasks.spawn(async move { passing.pass(client, server).await });
            }
        });
        wire
    }

    /// While it is held, nothing comes back from the server. What was sent before is forgotten.
    pub(crate) fn hold(&self, held: bool) {
        self.state.send_modify(|state| {
            state.held = held;
            state.sent.clear();
        });
    }

    /// The next connection that sends these bytes and then COMMIT breaks.
    pub(crate) fn cut(&self, cut: Cut, mark: &'static [u8]) {
        self.state.send_modify(|state| state.cut = Some((cut, mark)));
    }

    /// Whether no cut is waiting for its COMMIT.
    pub(crate) fn was_cut(&self) -> bool {
        self.state.borrow().cut.is_none()
    }

    /// Until a driver has sent this; all that was sent.
    pub(crate) async fn has_sent(&self, bytes: &[u8]) -> Vec<u8> {
        let mut states = self.state.subscribe();
        let sent = timeout(NEVER, states.wait_for(|state| find(&state.sent, bytes).is_some())).await;
        sent.unwrap_or_else(|_| panic!("never sent: {}", bytes.escape_ascii())).unwrap().sent.clone()
    }

    /// How many times something was sent that the server answers, since this was last asked.
    pub(crate) fn trips(&self) -> usize {
        let mut sent = Vec::new();
        self.state.send_modify(|state| sent = std::mem::take(&mut state.sent));
        let (mut rest, mut trips) = (sent.as_slice(), 0);
        // A letter and a length; what begins a connection has no letter, and is not asked for.
        while let [kind, a, b, c, d, ..] = *rest {
            trips += usize::from(kind == b'S' || kind == b'Q');
            let length = u32::from_be_bytes([a, b, c, d]) as usize + 1;
            rest = rest.get(length..).unwrap_or_default();
        }
        trips
    }

    /// Both ends close when either way ends.
    async fn pass(&self, client: TcpStream, server: TcpStream) {
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let lost = watch::Sender::new(false);
        tokio::select! {
            () = self.forward(from_client, to_server, &lost) => (),
            () = self.back(from_server, to_client, &lost) => (),
        }
    }

    async fn forward(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lost: &watch::Sender<bool>) {
        let (mut buffer, mut sent) = ([0; BUFFER], Vec::new());
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            let bytes = &buffer[..read];
            sent.extend_from_slice(bytes);
            match self.cut_by(&sent) {
                Some(Cut::BeforeCommit) => return,
                Some(Cut::AfterCommit) => drop(lost.send_replace(true)),
                None => (),
            }
            self.state.send_modify(|state| state.sent.extend_from_slice(bytes));
            if to.write_all(bytes).await.is_err() {
                return;
            }
        }
    }

    /// How the connection that has sent this breaks now.
    fn cut_by(&self, sent: &[u8]) -> Option<Cut> {
        let mut found = None;
        self.state.send_if_modified(|state| {
            let due = |(_, mark): &mut (Cut, &[u8])| {
                find(sent, mark).is_some_and(|at| find(&sent[at..], b"COMMIT").is_some())
            };
            found = state.cut.take_if(due);
            found.is_some()
        });
        found.map(|(cut, _)| cut)
    }

    async fn back(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lost: &watch::Sender<bool>) {
        let (mut buffer, mut states) = ([0; BUFFER], self.state.subscribe());
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            states.wait_for(|state| !state.held).await.unwrap();
            let bytes = &buffer[..read];
            // What was answered before COMMIT still arrives: a letter and a length stand before the word.
            let committed = if *lost.borrow() { find(bytes, b"COMMIT\0") } else { None };
            let passed = committed.map_or(read, |at| at - 5);
            if to.write_all(&bytes[..passed]).await.is_err() || committed.is_some() {
                return;
            }
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
