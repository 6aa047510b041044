//! What happens while a message of a process is on its way: a proxy holds it back.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]
#![expect(clippy::disallowed_methods, reason = "tasks end with the runtime of their test")]

use std::time::Duration;

use pillarbox::model::{EventId, GroupKey, NodeId, Row, Seq, Slot, Status, Token};
use pillarbox::port::{
    Admin, Begin, Cancel, Change, Claim, Counts, Cursor, Discard, ErrorKind, Fence, GroupAction, GroupChange,
    Heartbeat, List, OnDone, Outcome, ReadScope, Register, Select, Settle, Settled, Store, StoreError, Table,
    WriteOn,
};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::Client;
use pillarbox_mongodb::mongodb::bson::{Document, doc};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

mod server;

use server::{MONGODB, Site, claim, read_from, rows};

/// Far less than a server takes to end a transaction whose client has died.
const SOON: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(20);

/// Passes everything on to a server, but holds back each message that has a word in it until it is let go.
struct Proxy {
    port: u16,
    /// Once nobody listens, nothing is held back.
    held_back: mpsc::Receiver<LetGo>,
}

fn server_address() -> String {
    let url = std::env::var(MONGODB).unwrap();
    url.trim_start_matches("mongodb://").split('/').next().unwrap().to_owned()
}

/// Dropped, it lets a message go.
type LetGo = oneshot::Sender<()>;

impl Proxy {
    async fn start(word: &'static [u8]) -> Self {
        let server = server_address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hold, held_back) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = TcpStream::connect(&server).await.unwrap().into_split();
                tokio::spawn(pass_on(from_client, to_server, word, hold.clone()));
                tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            }
        });
        Self { port, held_back }
    }

    /// A store behind it.
    async fn store(&self, site: &Site) -> MongodbStore {
        let url = format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port);
        let client = Client::with_uri_str(url).await.unwrap();
        MongodbStore::new(client.database(site.database.name())).await.unwrap()
    }
}

async fn pass_on(
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    word: &[u8],
    hold: mpsc::Sender<LetGo>,
) {
    let mut message = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = client.read(&mut message).await {
        if message[..length].windows(word.len()).any(|part| part == word) {
            let (let_go, gone) = oneshot::channel();
            if hold.send(let_go).await.is_ok() {
                let _ = gone.await;
            }
        }
        if server.write_all(&message[..length]).await.is_err() {
            return;
        }
    }
}

fn join(node: NodeId) -> Register {
    Register {
        node,
        label: "node".to_owned(),
        lease: Duration::from_millis(1),
        reads: ReadScope::default(),
        now: None,
    }
}

fn settle(node: NodeId, row: &Row, change: Change) -> Settle {
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: Token::default(), change };
    Settle {
        fence: Fence::Node(node),
        outcomes: [outcome].into(),
        on_done: OnDone::Keep,
        repeats: None,
        now: None,
    }
}

/// PBX-120, PBX-014: a process that stands still in the middle of a settle is evicted, its rows can be settled by others at once,
/// and when it goes on nothing of its own is applied.
#[tokio::test]
async fn an_open_settle_of_an_evicted_node_is_ended_and_its_rows_are_free_at_once() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let mut proxy = Proxy::start(b"commitTransaction").await;
    let slow = proxy.store(&site).await;
    let (dead, heir) = (NodeId::from_random(1), NodeId::from_random(2));
    slow.register(join(dead)).await.unwrap();
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    let row = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.remove(0);

    let failed = Change::Dead { error: "late".to_owned(), counts: Counts::Made(1), blocks: None };
    let (store, late) = (slow.clone(), settle(dead, &row, failed));
    let late = tokio::spawn(async move { store.settle(late).await });
    let commit = timeout(LONG, proxy.held_back.recv()).await.unwrap().unwrap();

    timeout(SOON, site.store.register(join(heir))).await.expect("nobody waits").unwrap();
    let done = timeout(SOON, site.store.settle(settle(heir, &row, Change::Done))).await;
    let done = done.expect("nobody waits").unwrap();
    assert!(done.held && done.busy.is_empty() && done.stale.is_empty(), "{done:?}");

    drop((commit, proxy.held_back));
    let late = timeout(LONG, late).await.unwrap().unwrap().unwrap();
    assert!(!late.held, "{late:?}");
    let records = site.store.list(List { limit: 10, ..List::default() }).await.unwrap();
    assert_eq!(records.iter().map(|record| record.status).collect::<Vec<_>>(), [Status::Done]);
    let nodes = site.database.collection::<Document>("outbox_node");
    let left = doc! { "_id": { "$regex": format!("^{dead}") } };
    assert_eq!(nodes.count_documents(left).await.unwrap(), 0, "nothing is kept of it");
    slow.close().await;
    site.remove().await;
}

/// PBX-120, PBX-014: a process that evicts a node and dies before it has ended the node's sessions leaves that to the next one.
#[tokio::test]
async fn whoever_comes_next_ends_the_sessions_that_an_evictor_has_left() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let (mut settling, mut evicting) =
        (Proxy::start(b"commitTransaction").await, Proxy::start(b"killSessions").await);
    let (slow, evictor) = (settling.store(&site).await, evicting.store(&site).await);
    let [dead, gone, heir] = [1, 2, 3].map(NodeId::from_random);
    slow.register(join(dead)).await.unwrap();
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    let row = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.remove(0);
    let (store, late) = (slow.clone(), settle(dead, &row, Change::Attempt { attempts: 1 }));
    let late = tokio::spawn(async move { store.settle(late).await });
    let commit = timeout(LONG, settling.held_back.recv()).await.unwrap().unwrap();

    let store = evictor.clone();
    let evicts = tokio::spawn(async move { store.register(join(gone)).await });
    let kill = timeout(LONG, evicting.held_back.recv()).await.unwrap().unwrap();
    let nodes = site.store.nodes().await.unwrap();
    assert!(nodes.is_empty(), "it is evicted, and the evictor is not registered yet: {nodes:?}");

    timeout(SOON, site.store.register(join(heir))).await.expect("nobody waits").unwrap();
    let done = timeout(SOON, site.store.settle(settle(heir, &row, Change::Done))).await;
    let done = done.expect("nobody waits").unwrap();
    assert!(done.held && done.busy.is_empty() && done.stale.is_empty(), "{done:?}");
    let meta = site.database.collection::<Document>("outbox_meta");
    let members = meta.find_one(doc! { "_id": "members" }).await.unwrap().unwrap();
    assert!(members.get_array("ending").unwrap().is_empty(), "nothing is left to end");

    drop((commit, settling.held_back, kill, evicting.held_back));
    assert!(!timeout(LONG, late).await.unwrap().unwrap().unwrap().held);
    timeout(LONG, evicts).await.unwrap().unwrap().unwrap();
    slow.close().await;
    evictor.close().await;
    site.remove().await;
}

/// PBX-120, PBX-014: nobody gets the slots of an evicted node while the server has not ended its sessions, so what it still
/// settles is seen by whoever delivers its rows next.
#[tokio::test]
async fn slots_of_an_evicted_node_wait_until_its_settles_are_over() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let (mut settling, mut evicting) =
        (Proxy::start(b"commitTransaction").await, Proxy::start(b"killSessions").await);
    let (slow, evictor) = (settling.store(&site).await, evicting.store(&site).await);
    let [dead, heir] = [1, 2].map(NodeId::from_random);
    assert_eq!(slow.register(join(dead)).await.unwrap().held.len(), 65);
    site.store.write(rows(["a".to_owned()])).await.unwrap();
    let row = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.remove(0);
    let (store, late) = (slow.clone(), settle(dead, &row, Change::Attempt { attempts: 1 }));
    let late = tokio::spawn(async move { store.settle(late).await });
    let commit = timeout(LONG, settling.held_back.recv()).await.unwrap().unwrap();

    let lease = Duration::from_secs(60);
    let register = Register { lease, ..join(heir) };
    let registered =
        timeout(LONG, evictor.register(register)).await.expect("it does not wait for ever").unwrap();
    let kill = evicting.held_back.recv().await.unwrap();
    assert_eq!(
        registered.held.iter().map(|held| held.slot).collect::<Vec<_>>(),
        [registered.lane.slot()],
        "a settle of the evicted node may still be applied"
    );
    assert_ne!(registered.lane.slot(), Slot(64), "its lane is not given away either");

    drop((commit, settling.held_back));
    assert!(timeout(LONG, late).await.unwrap().unwrap().unwrap().held, "nobody could stop it");
    drop((kill, evicting.held_back));
    let (trusted, release) = (Vec::new(), Vec::new());
    let heartbeat = Heartbeat {
        node: heir,
        lease,
        trusted,
        release,
        sweep: false,
        groups_seen: 0,
        after: Seq(0),
        now: None,
    };
    let renewed = evictor.heartbeat(heartbeat).await.unwrap().unwrap();
    assert_eq!(renewed.held.len(), 66, "all slots and both lanes");
    assert!(
        renewed.held.iter().any(|held| held.suspect && held.slot == Slot(0)),
        "they are those of a dead node"
    );
    let read = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows.remove(0);
    assert_eq!(read.attempts, 1, "its heir sees what it has settled");
    slow.close().await;
    evictor.close().await;
    site.remove().await;
}

/// Lets a store settle each of these rows, up to the commit. Returns the settles, and what holds the commits back.
async fn settle_each(
    slow: &MongodbStore,
    proxy: &mut Proxy,
    node: NodeId,
    read: &[Row],
) -> (Vec<JoinHandle<Result<Settled, StoreError>>>, Vec<LetGo>) {
    let (mut settles, mut commits) = (Vec::new(), Vec::new());
    for row in read {
        let (store, request) = (slow.clone(), settle(node, row, Change::Attempt { attempts: 1 }));
        settles.push(tokio::spawn(async move { store.settle(request).await }));
        commits.push(timeout(LONG, proxy.held_back.recv()).await.expect("it does not conflict").unwrap());
    }
    (settles, commits)
}

/// PBX-148
#[tokio::test]
async fn two_settles_of_a_node_go_on_at_once() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let mut proxy = Proxy::start(b"commitTransaction").await;
    let (slow, node) = (proxy.store(&site).await, NodeId::from_random(1));
    assert!(slow.facts().concurrent_settles);
    slow.register(Register { lease: Duration::from_secs(60), ..join(node) }).await.unwrap();
    site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
    let read = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows;
    let (settles, commits) = settle_each(&slow, &mut proxy, node, &read).await;
    drop((commits, proxy.held_back));
    for settle in settles {
        let settled = timeout(LONG, settle).await.unwrap().unwrap().unwrap();
        assert!(settled.held && settled.stale.is_empty(), "{settled:?}");
    }
    slow.close().await;
    site.remove().await;
}

/// PBX-148, PBX-120
#[tokio::test]
async fn an_eviction_ends_both_settles_of_a_node() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let mut proxy = Proxy::start(b"commitTransaction").await;
    let slow = proxy.store(&site).await;
    let [dead, heir] = [1, 2].map(NodeId::from_random);
    slow.register(join(dead)).await.unwrap();
    site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
    let read = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows;
    let (settles, commits) = settle_each(&slow, &mut proxy, dead, &read).await;
    let register = Register { lease: Duration::from_secs(60), ..join(heir) };
    let joined = timeout(SOON, site.store.register(register)).await.expect("it does not wait").unwrap();
    assert!(joined.held.iter().any(|held| held.suspect && held.slot == Slot(0)), "it has their slots");
    drop((commits, proxy.held_back));
    for settle in settles {
        assert!(!timeout(LONG, settle).await.unwrap().unwrap().unwrap().held, "its node is gone");
    }
    let read = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows;
    assert_eq!(read.iter().map(|row| row.attempts).collect::<Vec<_>>(), [0, 0]);
    slow.close().await;
    site.remove().await;
}

fn pause(group: &str) -> GroupChange {
    let (group, by) = (GroupKey::new(group), "ann".to_owned());
    GroupChange { group, action: GroupAction::Pause, by, reason: None, now: None }
}

/// PBX-120: an operator that dies in the middle of a change keeps what it changes, and nothing that others need for theirs.
#[tokio::test]
async fn an_operator_that_dies_in_the_middle_of_a_change_holds_up_no_other() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let mut proxy = Proxy::start(b"commitTransaction").await;
    let slow = proxy.store(&site).await;
    let node = NodeId::from_random(1);
    let lease = Duration::from_secs(60);
    site.store.register(Register { lease, ..join(node) }).await.unwrap();
    site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
    let read = site.store.fetch(read_from(Cursor::default())).await.unwrap().rows;
    let store = slow.clone();
    let late = tokio::spawn(async move { store.change_group(pause("late")).await });
    let commit = timeout(LONG, proxy.held_back.recv()).await.unwrap().unwrap();

    let others = async {
        assert!(site.store.change_group(pause("other")).await.unwrap());
        let blocks = Some(GroupKey::new("blocked"));
        let dead = Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks };
        let settled = site.store.settle(settle(node, &read[0], dead)).await.unwrap();
        assert!(settled.busy.is_empty(), "{settled:?}");
        let dead = Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: None };
        site.store.settle(settle(node, &read[1], dead)).await.unwrap();
        let select = Select { ids: vec![read[1].id.clone()], ..Select::default() };
        let discard = Discard { select, limit: 1, by: "bob".to_owned(), now: None };
        assert_eq!(site.store.discard(discard).await.unwrap(), 1);
    };
    timeout(SOON, others).await.expect("nobody waits");
    let heartbeat = |groups_seen| {
        let (trusted, release) = (Vec::new(), Vec::new());
        Heartbeat { node, lease, trusted, release, sweep: false, groups_seen, after: Seq(0), now: None }
    };
    let held = |groups: &pillarbox::port::GroupStates| -> Vec<String> {
        groups.held.iter().map(|held| held.group.to_string()).collect()
    };
    let seen = site.store.heartbeat(heartbeat(0)).await.unwrap().unwrap().groups.expect("two changes");
    assert_eq!(held(&seen), ["blocked", "other"]);
    drop((commit, proxy.held_back));
    assert!(timeout(LONG, late).await.unwrap().unwrap().unwrap());
    let seen = site.store.heartbeat(heartbeat(seen.epoch)).await.unwrap().unwrap().groups;
    assert_eq!(held(&seen.expect("one more")), ["blocked", "late", "other"]);
    slow.close().await;
    site.remove().await;
}

/// PBX-127: the real server behind a proxy that makes it say that it is MongoDB 5.0.
#[tokio::test]
async fn a_server_older_than_version_6_is_refused() {
    const VERSION: &[u8] = b"maxWireVersion\0";
    const OF_5_0: i32 = 13;
    let Some(site) = Site::new(MONGODB).await else { return };
    let server = server_address();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url =
        format!("mongodb://127.0.0.1:{}/shop?directConnection=true", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(&server).await.unwrap().into_split();
            tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let mut message = vec![0; 64 * 1024];
                while let Ok(length @ 1..) = from_server.read(&mut message).await {
                    let told = message[..length].windows(VERSION.len()).position(|part| part == VERSION);
                    if let Some(place) = told.map(|place| place + VERSION.len()) {
                        message[place..place + 4].copy_from_slice(&OF_5_0.to_le_bytes());
                    }
                    to_client.write_all(&message[..length]).await.unwrap();
                }
            });
        }
    });
    let refused = MongodbStore::open_url(&url).await.expect_err("it is too old");
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("6.0"), "{refused}");
    site.remove().await;
}

/// PBX-120, OBX-050: a worker that dies in the middle of a settle keeps its messages no longer than its claim lasts.
#[tokio::test]
async fn an_open_settle_of_a_dead_worker_ends_with_its_claim() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let mut proxy = Proxy::start(b"commitTransaction").await;
    let slow = proxy.store(&site).await;
    site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap();
    let mine = Claim { lease: Duration::from_millis(1), ..claim("ann", 1) };
    let (ann, row) = (mine.owner.clone(), slow.claim(mine).await.unwrap().remove(0));
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Done };
    let late = Settle {
        fence: Fence::Owner(ann),
        outcomes: [outcome].into(),
        on_done: OnDone::Keep,
        repeats: None,
        now: None,
    };
    let store = slow.clone();
    let late = tokio::spawn(async move { store.settle(late).await });
    let commit = timeout(LONG, proxy.held_back.recv()).await.unwrap().unwrap();

    let claimed = timeout(SOON, site.store.claim(claim("bob", 2))).await.expect("nobody waits").unwrap();
    let ids: Vec<&str> = claimed.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"], "both are free");

    drop((commit, proxy.held_back));
    let late = timeout(LONG, late).await.unwrap().unwrap().unwrap();
    assert_eq!(late.stale, [0], "another worker has it");
    let nodes = site.database.collection::<Document>("outbox_node");
    let of_owners = || doc! { "_id": { "$regex": "^owner" } };
    let of = |owner: &str| doc! { "_id": format!("owner {owner} sessions") };
    let kept = nodes.count_documents(of("ann")).await.unwrap();
    assert_eq!(kept, 1, "a worker that lives on keeps its record");
    nodes.insert_one(doc! { "_id": "owner gone sessions", "sessions": [], "made_at": 0_i64 }).await.unwrap();
    let again = Claim { lease: Duration::from_millis(1), ..claim("bob", 1) };
    site.store.write(rows(["c".to_owned()])).await.unwrap();
    site.store.claim(again).await.unwrap();
    let taken = async { while slow.claim(claim("cat", 1)).await.unwrap().is_empty() {} };
    timeout(SOON, taken).await.expect("nobody waits");
    assert_eq!(nodes.count_documents(of("gone")).await.unwrap(), 0, "what nobody renews is removed");
    slow.close().await;
    site.store.close().await;
    assert_eq!(nodes.count_documents(of_owners()).await.unwrap(), 0, "and a store that closes leaves none");
    site.remove().await;
}

/// PBX-010: rows of one transaction are read together or not at all, also where they are on both sides of a window's end and the
/// commit comes while the reader goes from one window to the next.
#[tokio::test]
async fn a_commit_in_the_middle_of_a_read_does_not_show_its_second_row_alone() {
    /// The width of the first window.
    const WINDOW: usize = 100;
    let Some(site) = Site::new(MONGODB).await else { return };
    let names: Vec<String> = (1..WINDOW).map(|number| format!("gone {number}")).collect();
    site.store.write(rows(names.clone())).await.unwrap();
    let ids = names.into_iter().map(EventId::from_row).collect();
    site.store.cancel(Cancel { ids, by: "ann".to_owned(), now: None }).await.unwrap();
    let mut tx = site.store.begin().await.unwrap();
    let both = rows(["first".to_owned(), "second".to_owned()]).rows;
    let written = site.store.insert(&mut tx, &both).await.unwrap();
    assert_eq!(written[0].seq.0, WINDOW as i64, "the next one is in another window");
    site.store.write(rows(["last".to_owned()])).await.unwrap();

    let mut proxy = Proxy::start(b"$lte").await;
    let slow = proxy.store(&site).await;
    let (answer, mut answered) = oneshot::channel();
    tokio::spawn(async move {
        let mut read = read_from(Cursor::default());
        read.rows = WINDOW / 2;
        answer.send(slow.fetch(read).await.unwrap().rows).unwrap();
        slow.close().await;
    });
    drop(timeout(LONG, proxy.held_back.recv()).await.unwrap().expect("it reads up to a number"));
    let second = tokio::select! {
        second = proxy.held_back.recv() => second,
        // All that it reads above what is vouched for is one window.
        read = &mut answered => {
            assert_eq!(read.unwrap().iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["last"]);
            None
        }
    };
    site.store.commit(tx).await.unwrap();
    if second.is_some() {
        drop((second, proxy.held_back));
        let read = timeout(LONG, answered).await.unwrap().unwrap();
        let read: Vec<&str> = read.iter().map(|row| row.id.as_str()).collect();
        assert!(read == ["last"] || read == ["first", "second", "last"], "{read:?}");
    }
    site.remove().await;
}
