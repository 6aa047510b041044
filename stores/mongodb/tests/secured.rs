//! A replica set that asks for passwords (SCRAM) and TLS: users with exactly the rights that the guide names.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pillarbox::model::{EventId, GroupKey, NodeId, Seq, Token};
use pillarbox::port::{
    Admin, Begin, Cancel, Change, Counts, Cursor, ErrorKind, Fence, GroupAction, GroupChange, Heartbeat,
    OnDone, Order, Outcome, Promote, Purge, PurgeStatus, ReadScope, Register, Replay, Select, Settle, Store,
    Table, WriteOn,
};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::Client;
use pillarbox_mongodb::mongodb::bson::{Bson, Document, doc};
use tokio::time::timeout;

mod server;

use server::mongod::{Folder, MONGOD, Mongod, STARTED, initiate};
use server::{read_from, rows, say};

const PASSWORD: &str = "one that is long";

const WRITER: &[(&str, &[&str])] =
    &[("outbox_event", &["find", "insert"]), ("outbox_meta", &["find", "update"])];
const RELAY: &[(&str, &[&str])] = &[
    ("outbox_event", &["find", "insert", "update", "remove", "changeStream", "listIndexes"]),
    ("outbox_meta", &["find", "insert", "update", "remove"]),
    ("outbox_group", &["find", "insert", "update"]),
    ("outbox_node", &["find", "insert", "update", "remove"]),
    ("outbox_oversized", &["insert"]),
    ("outbox_join", &["find", "remove"]),
    ("outbox_join_member", &["find", "remove"]),
];
const OPERATOR: &[(&str, &[&str])] = &[
    ("outbox_event", &["find", "update", "remove", "listIndexes"]),
    ("outbox_meta", &["find", "insert", "update"]),
    ("outbox_group", &["find", "insert", "update", "remove"]),
    ("outbox_audit", &["find", "insert"]),
    ("outbox_oversized", &["find"]),
    ("outbox_join", &["find", "insert", "update"]),
    ("outbox_join_member", &["find", "insert", "update"]),
];

/// A server of the test's own.
struct Secured(Mongod);

impl Secured {
    fn start(program: &str) -> Self {
        let folder = Folder::new().unwrap();
        fs::write(folder.path().join("key"), "c2VjcmV0IG9mIHRoZSBtZW1iZXJz").unwrap();
        fs::set_permissions(folder.path().join("key"), Permissions::from_mode(0o600)).unwrap();
        certify(folder.path());
        let word = |option: &str, file: &str| format!("{option}={}", folder.path().join(file).display());
        let (key, authority) = (word("--keyFile", "key"), word("--tlsCAFile", "ca.pem"));
        let certificate = word("--tlsCertificateKeyFile", "both.pem");
        let words = [
            "--replSet",
            "s",
            "--auth",
            "--tlsMode",
            "requireTLS",
            "--tlsAllowConnectionsWithoutCertificates",
        ];
        let words: Vec<&str> = words.into_iter().chain([key.as_str(), &authority, &certificate]).collect();
        Self(Mongod::start(program, folder, &words).unwrap())
    }

    fn url(&self, user: Option<&str>) -> String {
        let login = user.map(|user| format!("{user}:{}@", PASSWORD.replace(' ', "%20"))).unwrap_or_default();
        let authority = self.0.folder.path().join("ca.pem");
        format!(
            "mongodb://{login}127.0.0.1:{}/shop?authSource=admin&directConnection=true&tls=true&tlsCAFile={}",
            self.0.port,
            authority.display()
        )
    }

    /// Makes a set of it and its first user, as only a client of the same machine may, while there is none.
    async fn initiate(&self) {
        let client = Client::with_uri_str(self.url(None)).await.unwrap();
        initiate(&client, "s", &[self.0.address()]).await;
        let admin = client.database("admin");
        let root = doc! { "createUser": "root", "pwd": PASSWORD, "roles": ["root"] };
        admin.run_command(root).await.unwrap();
    }

    /// Adds a user who has exactly these rights.
    async fn add(&self, name: &str, rights: &[(&str, &[&str])]) {
        let admin = Client::with_uri_str(self.url(Some("root"))).await.unwrap().database("admin");
        let privilege = |(collection, actions): &(&str, &[&str])| {
            let resource = doc! { "db": "shop", "collection": *collection };
            Bson::from(doc! { "resource": resource, "actions": actions.to_vec() })
        };
        let privileges: Vec<Bson> = rights.iter().map(privilege).collect();
        admin.run_command(doc! { "createRole": name, "privileges": privileges, "roles": [] }).await.unwrap();
        admin.run_command(doc! { "createUser": name, "pwd": PASSWORD, "roles": [name] }).await.unwrap();
    }

    async fn open(&self, user: &str) -> MongodbStore {
        MongodbStore::open_url(&self.url(Some(user))).await.unwrap()
    }
}

/// A certificate for this machine, by an authority of its own.
fn certify(folder: &Path) {
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2 &&
        openssl req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=localhost &&
        echo subjectAltName=IP:127.0.0.1 > names &&
        openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -days 2 -extfile names &&
        cat own.key own.pem > both.pem";
    let made = Command::new("sh").args(["-ec", script]).current_dir(folder).stderr(Stdio::null()).status();
    assert!(made.unwrap().success(), "openssl makes certificates");
}

/// PBX-082, PBX-104: the roles of the guide are enough, over TLS and with passwords, and less is refused.
#[tokio::test]
async fn users_with_the_roles_of_the_guide_write_deliver_and_operate() {
    let has_openssl = Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok();
    let (Ok(program), true) = (std::env::var(MONGOD), has_openssl) else {
        return say(&format!("could not run: mongodb with passwords: no openssl, or {MONGOD} is not set"));
    };
    let server = Secured::start(&program);
    timeout(STARTED, server.initiate()).await.expect("a primary");
    server.open("root").await.migrate().await.unwrap();
    for (name, rights) in [("writer", WRITER), ("relay", RELAY), ("operator", OPERATOR)] {
        server.add(name, rights).await;
    }
    write(&server.open("writer").await).await;
    deliver(&server.open("relay").await).await;
    operate(&server.open("operator").await).await;
    let wrong = server.url(Some("relay")).replace("one%20that", "another");
    let refused = MongodbStore::open_url(&wrong).await.expect_err("the password is another");
    assert_eq!(refused.kind(), ErrorKind::Permission, "{refused}");
    let plain = format!(
        "mongodb://127.0.0.1:{}/shop?directConnection=true&serverSelectionTimeoutMS=500",
        server.0.port
    );
    assert!(MongodbStore::open_url(&plain).await.is_err(), "it takes nobody without TLS");
}

async fn write(store: &MongodbStore) {
    store.write(rows(["one".to_owned()])).await.unwrap();
    store.write(rows(["two".to_owned(), "three".to_owned()])).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &rows(["four".to_owned()]).rows).await.unwrap();
    store.commit(tx).await.unwrap();
    let replay = Replay { select: Select::default(), limit: 1, by: "ann".to_owned(), now: None };
    let refused = store.register(join()).await.expect_err("it may not");
    assert_eq!(refused.kind(), ErrorKind::Permission, "{refused}");
    assert_eq!(store.replay(replay).await.unwrap(), 0, "nothing is dead");
}

fn join() -> Register {
    let node = NodeId::from_random(1);
    Register {
        node,
        label: "node".to_owned(),
        lease: Duration::from_secs(60),
        reads: ReadScope::default(),
        now: None,
    }
}

async fn deliver(store: &MongodbStore) {
    store.check().await.unwrap();
    let lacking = store.lacking().await.unwrap();
    assert_eq!((lacking.deliver.len(), lacking.purge.len()), (0, 0));
    let mut hints = store.wakeups().expect("change streams").0;
    timeout(STARTED, hints.changed()).await.unwrap().unwrap();
    let node = join().node;
    let lane = store.register(join()).await.unwrap().lane;
    let fetched = store.fetch(read_from(Cursor::default())).await.unwrap();
    let change = |place: usize| match place {
        0 => {
            Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: Some(GroupKey::new("g")) }
        }
        1 => Change::Attempt { attempts: 1 },
        _ => Change::Done,
    };
    let outcome = |(place, row): (usize, &pillarbox::model::Row)| Outcome {
        seq: row.seq,
        id: row.id.clone(),
        token: Token::default(),
        change: change(place),
    };
    let outcomes: Vec<Outcome> = fetched.rows.iter().enumerate().map(outcome).collect();
    assert_eq!(outcomes.len(), 4);
    let settle = Settle {
        fence: Fence::Node(node),
        outcomes: outcomes.into(),
        on_done: OnDone::Delete,
        repeats: None,
        now: None,
    };
    assert!(store.settle(settle).await.unwrap().stale.is_empty());
    let promote = Promote { node, lane, order: Order::PerGroup, rows: 10, now: None };
    store.promote(promote).await.unwrap();
    let heartbeat = Heartbeat {
        node,
        lease: Duration::from_secs(60),
        trusted: Vec::new(),
        release: Vec::new(),
        sweep: true,
        groups_seen: 0,
        after: Seq(0),
        now: None,
    };
    assert!(store.heartbeat(heartbeat).await.unwrap().is_some());
    // Whoever evicts it ends the sessions that it settles in.
    let nodes = store.database().collection::<Document>("outbox_node");
    let noted = nodes.find_one(doc! { "_id": format!("{node} sessions") }).await.unwrap().unwrap();
    let sessions = noted.get_array("sessions").unwrap();
    assert_eq!(sessions.len(), 1);
    let admin = store.database().client().database("admin");
    admin.run_command(doc! { "killSessions": sessions.clone() }).await.unwrap();
    let purge = Purge { status: PurgeStatus::Done, older_than: Duration::ZERO, limit: 10, now: None };
    store.purge(purge).await.unwrap();
    store.leave(node).await.unwrap();
    store.close().await;
}

async fn operate(store: &MongodbStore) {
    store.check().await.unwrap();
    assert_eq!(store.stats().await.unwrap().dead_by_type.len(), 1);
    let replay = Replay { select: Select::default(), limit: 10, by: "ann".to_owned(), now: None };
    assert_eq!(store.replay(replay).await.unwrap(), 1);
    let cancel = Cancel { ids: vec![EventId::from_row("two")], by: "ann".to_owned(), now: None };
    assert_eq!(store.cancel(cancel).await.unwrap().len(), 1);
    for action in [GroupAction::Pause, GroupAction::Resume] {
        let change =
            GroupChange { group: GroupKey::new("h"), action, by: "ann".to_owned(), reason: None, now: None };
        assert!(store.change_group(change).await.unwrap());
    }
    assert_eq!(store.audit(10).await.unwrap().len(), 4);
    let refused = store.write(rows(["five".to_owned()])).await.expect_err("it may not");
    assert_eq!(refused.kind(), ErrorKind::Permission, "{refused}");
}
