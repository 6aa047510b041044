//! INSERT and COMMIT go out together: seen on the wire, between the driver and the server.

use std::sync::{Arc, Mutex};

use pillarbox::port::Begin;
use pillarbox_postgres::PipelinedStore;
use pillarbox_postgres::deadpool_postgres::{Manager, Pool};
use pillarbox_postgres::tokio_postgres::config::Host;
use pillarbox_postgres::tokio_postgres::{Config, NoTls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::kit::{Kit, row};

/// Passes bytes on; while it is held, nothing comes back from the server.
#[derive(Default)]
struct Wire {
    sent: Mutex<Vec<u8>>,
    held: Mutex<bool>,
    changed: Notify,
}

impl Wire {
    fn hold(&self, held: bool) {
        *self.held.lock().unwrap() = held;
        self.sent.lock().unwrap().clear();
        self.changed.notify_waiters();
    }

    /// Until the driver has sent this.
    async fn has_sent(&self, bytes: &[u8]) {
        loop {
            let changed = self.changed.notified();
            if self.sent.lock().unwrap().windows(bytes.len()).any(|part| part == bytes) {
                return;
            }
            changed.await;
        }
    }

    async fn forward(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut buffer = [0; 8_192];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            self.sent.lock().unwrap().extend_from_slice(&buffer[..read]);
            self.changed.notify_waiters();
            to.write_all(&buffer[..read]).await.unwrap();
        }
    }

    async fn back(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut buffer = [0; 8_192];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            loop {
                let changed = self.changed.notified();
                if !*self.held.lock().unwrap() {
                    break;
                }
                changed.await;
            }
            if to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}

/// With every answer held back, COMMIT arrives at the server: it did not wait for the answer to INSERT.
#[tokio::test]
async fn insert_and_commit_are_sent_before_either_is_answered() {
    let test = "insert_and_commit_are_sent_before_either_is_answered";
    let Some(kit) = Kit::new(test).await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = kit.config();
    let Host::Tcp(host) = config.get_hosts()[0].clone() else { panic!("a server on TCP") };
    let server = (host, config.get_ports()[0]);
    let (wire, tasks) = (Arc::new(Wire::default()), TaskTracker::new());
    let passing = Arc::clone(&wire);
    tasks.spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::join!(passing.forward(from_client, to_server), passing.back(from_server, to_client));
    });
    let mut through = Config::new();
    through.host("127.0.0.1").port(port).user(config.get_user().unwrap());
    through.dbname(config.get_dbname().unwrap());
    let pool = Pool::builder(Manager::new(through, NoTls)).max_size(1).build().unwrap();
    let store = PipelinedStore::new(kit.store.clone(), pool);

    // The first transaction of a connection prepares the statement.
    let tx = store.begin().await.unwrap();
    store.commit_with(tx, &[row("a")], || ()).await.unwrap();
    let tx = store.begin().await.unwrap();
    wire.hold(true);
    let rows = [row("b")];
    let commit = store.commit_with(tx, &rows, || ());
    let sent = async {
        wire.has_sent(b"COMMIT").await;
        let sent = wire.sent.lock().unwrap().clone();
        assert!(sent.windows(11).any(|part| part == b"OrderPlaced"), "the event went before");
        wire.hold(false);
    };
    let (written, ()) = tokio::join!(commit, sent);
    assert_eq!(written.unwrap().len(), 1);
    assert_eq!(kit.counts().await, (2, 0));
}
