//! On replica sets: events and business documents in one transaction, numbers of transactions that overlap, wake-up, and what
//! processes leave that die in the middle.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::model::{GroupKey, NodeId, Seq};
use pillarbox::port::{
    Admin, Begin, CommitError, Cursor, ErrorKind, GroupAction, GroupChange, Heartbeat, Order, Promote,
    ReadScope, Register, Select, Store, Table, WriteOn,
};
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::Client;
use pillarbox_mongodb::mongodb::bson::{Bson, Document, doc};
use pillarbox_mongodb::mongodb::event::EventHandler;
use pillarbox_mongodb::mongodb::event::command::CommandEvent;
use pillarbox_mongodb::mongodb::options::ClientOptions;
use tokio::time::timeout;

mod server;

use server::{MONGODB, Site, THREE, claim, read_from, rows};

/// Far less than a server takes to end a transaction whose client has died.
const SOON: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(20);

/// EVT-021, PBX-024
#[tokio::test]
async fn an_event_is_there_exactly_if_its_business_document_is() {
    for variable in [MONGODB, THREE] {
        let Some(site) = Site::new(variable).await else { return };
        assert!(site.store.facts().transactions, "{variable} names no replica set");
        let orders = site.database.collection::<Document>("orders");
        orders.insert_one(doc! { "_id": 0 }).await.unwrap();
        for (number, commits) in [(1, false), (2, true)] {
            let mut tx = site.store.begin().await.unwrap();
            orders.insert_one(doc! { "_id": number }).session(&mut tx).await.unwrap();
            let written = rows([format!("e{number}")]).rows;
            site.store.insert(&mut tx, &written).await.unwrap();
            assert_eq!(site.store.count(Select::default()).await.unwrap(), 0, "not before the commit");
            match commits {
                true => site.store.commit(tx).await.unwrap(),
                false => site.store.rollback(tx).await.unwrap(),
            }
        }
        assert_eq!(orders.count_documents(doc! {}).await.unwrap(), 2);
        let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
        assert_eq!(fetched.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["e2"]);
        site.remove().await;
    }
}

/// EVT-021: a session without a transaction would write at once what its caller thinks can be undone.
#[tokio::test]
async fn a_session_without_an_open_transaction_is_refused() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let written = rows(["a".to_owned()]).rows;
    let mut session = site.client.start_session().await.unwrap();
    let refused = site.store.insert(&mut session, &written).await.expect_err("nothing was started");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    session.start_transaction().await.unwrap();
    site.store.insert(&mut session, &written).await.unwrap();
    session.commit_transaction().await.unwrap();
    let refused = site.store.insert(&mut session, &[]).await.expect_err("it has ended");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(site.store.count(Select::default()).await.unwrap(), 1);
    site.remove().await;
}

/// PBX-010: a number that commits after a later one was read is not passed by, whoever holds its transaction.
#[tokio::test]
async fn the_cursor_does_not_pass_numbers_of_open_transactions() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let beside = MongodbStore::new(site.database.clone()).await.unwrap();
    let mut own = site.client.start_session().await.unwrap();
    own.start_transaction().await.unwrap();
    let mut begun = site.store.begin().await.unwrap();
    site.store.insert(&mut begun, &rows(["begun".to_owned()]).rows).await.unwrap();
    site.store.insert(&mut own, &rows(["own".to_owned()]).rows).await.unwrap();
    let last = beside.write(rows(["last".to_owned()])).await.unwrap()[0].seq;
    let mut cursor = Cursor::default();
    for store in [&site.store, &beside] {
        let fetched = store.fetch(read_from(cursor)).await.unwrap();
        assert_eq!(fetched.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["last"]);
        assert_eq!(fetched.cursor.decided, Seq(0), "two may still come");
        cursor = fetched.cursor;
    }
    own.commit_transaction().await.unwrap();
    site.store.commit(begun).await.unwrap();
    let fetched = beside.fetch(read_from(cursor)).await.unwrap();
    assert_eq!(fetched.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["begun", "own", "last"]);
    let mut ended = site.store.begin().await.unwrap();
    site.store.insert(&mut ended, &rows(["never".to_owned()]).rows).await.unwrap();
    site.store.rollback(ended).await.unwrap();
    assert!(fetched.cursor.decided < last, "nobody has told the end of a session of one's own");
    site.remove().await;
}

/// PBX-010, PBX-120: of transactions that the store ends it knows the end.
#[tokio::test]
async fn the_cursor_passes_numbers_of_transactions_that_have_ended() {
    let Some(site) = Site::new(MONGODB).await else { return };
    for commits in [true, false, true] {
        let mut tx = site.store.begin().await.unwrap();
        site.store.insert(&mut tx, &rows([format!("{commits}")]).rows).await.ok();
        match commits {
            true => site.store.commit(tx).await.ok(),
            false => site.store.rollback(tx).await.ok(),
        };
    }
    let last = site.store.write(rows(["a".to_owned(), "b".to_owned()])).await.unwrap()[1].seq;
    let fetched = site.store.fetch(read_from(Cursor::default())).await.unwrap();
    assert_eq!((fetched.rows.len(), fetched.cursor.decided), (3, last));
    site.remove().await;
}

/// PBX-120: a server keeps the transaction of a dead process open for a minute; nobody waits for it.
#[tokio::test]
async fn a_writer_that_died_in_its_transaction_holds_nobody_up() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let beside = MongodbStore::new(site.database.clone()).await.unwrap();
    let mut dead = site.store.begin().await.unwrap();
    site.store.insert(&mut dead, &rows(["dead".to_owned()]).rows).await.unwrap();
    let going_on = async {
        beside.write(rows(["one".to_owned()])).await.unwrap();
        beside.write(rows(["two".to_owned(), "three".to_owned()])).await.unwrap();
        let mut tx = beside.begin().await.unwrap();
        beside.insert(&mut tx, &rows(["four".to_owned()]).rows).await.unwrap();
        beside.commit(tx).await.unwrap();
        beside.fetch(read_from(Cursor::default())).await.unwrap().rows.len()
    };
    assert_eq!(timeout(SOON, going_on).await.expect("nobody waits"), 4);
    site.store.rollback(dead).await.unwrap();
    site.remove().await;
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

/// PBX-120, PBX-014: a node that died in the middle of a settle is evicted when its lease has run out, and its late outcome
/// changes nothing.
#[tokio::test]
async fn a_node_that_died_in_a_settle_is_evicted_all_the_same() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let (dead, heir) = (NodeId::from_random(1), NodeId::from_random(2));
    let held = site.store.register(join(dead)).await.unwrap().held.len();
    let nodes = site.database.collection::<Document>("outbox_node");
    let mut settle = site.client.start_session().await.unwrap();
    settle.start_transaction().await.unwrap();
    let own = doc! { "_id": dead.to_string() };
    let touched =
        nodes.update_one(own, doc! { "$inc": { "settles": 1 } }).session(&mut settle).await.unwrap();
    assert_eq!(touched.matched_count, 1, "settles are held to it");
    let joined = timeout(SOON, site.store.register(join(heir))).await.expect("nobody waits").unwrap();
    assert_eq!((joined.held.len(), joined.nodes), (held, 1));
    let promote = Promote { node: dead, lane: joined.lane, order: Order::PerGroup, rows: 1, now: None };
    assert_eq!(site.store.promote(promote).await.unwrap().next_due, None, "it is no member any more");
    settle.abort_transaction().await.unwrap();
    site.remove().await;
}

/// PBX-120: changes of held groups leave documents of their own, which a heartbeat merges without a change of the epoch.
#[tokio::test]
async fn what_changes_of_groups_leave_is_merged() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let node = NodeId::from_random(1);
    let lease = Duration::from_secs(60);
    site.store.register(Register { lease, ..join(node) }).await.unwrap();
    for number in 0..120 {
        let (group, by) = (GroupKey::new(format!("g{number:03}")), "ann".to_owned());
        let change = GroupChange { group, action: GroupAction::Pause, by, reason: None, now: None };
        assert!(site.store.change_group(change).await.unwrap());
    }
    let heartbeat = |groups_seen| {
        let (trusted, release) = (Vec::new(), Vec::new());
        Heartbeat { node, lease, trusted, release, sweep: true, groups_seen, after: Seq(0), now: None }
    };
    let meta = site.database.collection::<Document>("outbox_meta");
    let left =
        || async { meta.count_documents(doc! { "_id": { "$regex": "^groups_epoch " } }).await.unwrap() };
    assert_eq!(left().await, 120);
    let groups = site.store.heartbeat(heartbeat(0)).await.unwrap().unwrap().groups.expect("changes");
    assert_eq!((groups.epoch, groups.held.len()), (120, 120));
    // The heartbeat does not wait for the merge.
    let merged = async { while left().await > 0 {} };
    timeout(Duration::from_secs(60), merged).await.expect("all are merged");
    assert_eq!(site.store.heartbeat(heartbeat(120)).await.unwrap().unwrap().groups, None);
    site.remove().await;
}

/// PBX-120: a write of the store's own goes on until its deadline, however often it loses.
#[tokio::test]
async fn a_write_that_loses_is_tried_until_its_deadline() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let events = site.database.collection::<Document>("outbox_event");
    let mut other = site.client.start_session().await.unwrap();
    other.start_transaction().await.unwrap();
    events.insert_one(doc! { "_id": "wanted" }).session(&mut other).await.unwrap();
    let mut writing = Box::pin(site.store.write(rows(["beside".to_owned(), "wanted".to_owned()])));
    let waited = timeout(Duration::from_secs(3), &mut writing).await;
    assert!(waited.is_err(), "it has not given up: {waited:?}");
    other.abort_transaction().await.unwrap();
    assert_eq!(timeout(LONG, writing).await.unwrap().unwrap().len(), 2);
    site.remove().await;
}

/// PBX-024: whatever the URL says, events are written with the majority and read from the primary.
#[tokio::test]
async fn a_url_that_asks_for_less_changes_nothing() {
    let Some(site) = Site::new(THREE).await else { return };
    let url = std::env::var(THREE).unwrap().replace("/pillarbox?", &format!("/{}?", site.database.name()));
    let url = format!("{url}&w=1&journal=false&readPreference=secondaryPreferred&readConcernLevel=local");
    let store = MongodbStore::open_url(&url).await.unwrap();
    for number in 0..20 {
        let name = |part: &str| format!("{number} {part}");
        store.write(rows([name("alone")])).await.unwrap();
        store.write(rows([name("one"), name("two")])).await.unwrap();
        let read = store.fetch(read_from(Cursor::default())).await.unwrap().rows;
        assert_eq!(read.len(), 3 * (number + 1), "a secondary may not have it yet");
    }
    store.close().await;
    site.remove().await;
}

/// PBX-024: the store's own writes are confirmed by the majority, whatever the client is set to.
#[tokio::test]
async fn a_client_that_asks_for_less_writes_with_the_majority() {
    const WRITES: [&str; 5] = ["insert", "update", "delete", "findAndModify", "commitTransaction"];
    let Some(site) = Site::new(MONGODB).await else { return };
    let url = std::env::var(MONGODB).unwrap();
    let joint = if url.contains('?') { '&' } else { '?' };
    let mut options = ClientOptions::parse(format!("{url}{joint}w=1")).await.unwrap();
    let sent: Arc<Mutex<Vec<Document>>> = Arc::default();
    let seen = Arc::clone(&sent);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(event) = event
            && WRITES.contains(&event.command_name.as_str())
        {
            seen.lock().unwrap().push(event.command);
        }
    }));
    let client = Client::with_options(options).unwrap();
    let store = MongodbStore::new(client.database(site.database.name())).await.unwrap();
    store.write(rows(["one".to_owned()])).await.unwrap();
    store.write(rows(["two".to_owned(), "three".to_owned()])).await.unwrap();
    assert_eq!(store.claim(claim("ann", 10)).await.unwrap().len(), 3);
    store.close().await;
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    // In a transaction the commit alone has a write concern.
    let confirming = |command: &&Document| {
        command.contains_key("commitTransaction") || !command.contains_key("autocommit")
    };
    let concerns: Vec<_> =
        sent.iter().filter(confirming).map(|command| command.get_document("writeConcern")).collect();
    assert!(concerns.len() >= 4, "{concerns:?}");
    for concern in concerns {
        assert_eq!(concern.unwrap().get_str("w").unwrap(), "majority");
    }
    site.remove().await;
}

/// Has the server fail a command of the clients of this name; nothing if there is no command.
async fn fail(site: &Site, name: &str, command: Option<&str>, how: Document) {
    let mut data = doc! { "appName": name, "failCommands": [command.unwrap_or("none")] };
    data.extend(how);
    let mode = if command.is_some() { "alwaysOn" } else { "off" };
    let admin = site.client.database("admin");
    admin
        .run_command(doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data })
        .await
        .unwrap();
}

/// PBX-024, PBX-121: a write whose answer is lost says so with its ids, and one with the same ids adds nothing twice.
///
/// One test has all that the server is told to fail: it knows one such order at a time.
#[tokio::test]
async fn what_the_server_does_not_answer_or_refuses() {
    const NAME: &str = "unanswered";
    let Some(site) = Site::called(MONGODB, NAME).await else { return };
    let store = MongodbStore::builder(site.database.clone()).command_timeout(Duration::from_secs(1));
    let store = store.open().await.unwrap();
    let hung_up = || doc! { "closeConnection": true };
    for (command, names) in [("insert", vec!["alone"]), ("commitTransaction", vec!["one", "two"])] {
        let written = || rows(names.iter().map(|name| (*name).to_owned()));
        fail(&site, NAME, Some(command), hung_up()).await;
        let unknown = store.write(written()).await.expect_err("there is no answer");
        assert_eq!(unknown.kind(), ErrorKind::Unknown, "{unknown}");
        assert!(names.iter().all(|name| unknown.to_string().contains(name)), "{unknown}");
        fail(&site, NAME, None, Document::new()).await;
        store.write(written()).await.unwrap();
        assert_eq!(store.write(written()).await.expect_err("they are there").kind(), ErrorKind::Conflict);
    }
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &rows(["three".to_owned()]).rows).await.unwrap();
    fail(&site, NAME, Some("commitTransaction"), hung_up()).await;
    let unknown = store.commit(tx).await.expect_err("there is no answer");
    assert!(matches!(unknown, CommitError::Unknown(_)), "{unknown}");
    fail(&site, NAME, None, Document::new()).await;

    // PBX-016: where change streams are refused, the counter tells of rows written elsewhere.
    fail(&site, NAME, Some("aggregate"), doc! { "errorCode": 13 }).await;
    let mut hints = site.store.wakeups().expect("a replica set has change streams").0;
    timeout(LONG, hints.changed()).await.unwrap().unwrap();
    store.write(rows(["four".to_owned()])).await.unwrap();
    timeout(LONG, hints.changed()).await.unwrap().unwrap();
    fail(&site, NAME, None, Document::new()).await;
    site.remove().await;
}

/// PBX-016
#[tokio::test]
async fn a_change_stream_tells_of_rows_written_elsewhere() {
    for variable in [MONGODB, THREE] {
        let Some(site) = Site::new(variable).await else { return };
        let mut hints = site.store.wakeups().expect("a replica set has change streams").0;
        // The first hint comes once the stream is open.
        timeout(LONG, hints.changed()).await.unwrap().unwrap();
        let beside = MongodbStore::new(site.database.clone()).await.unwrap();
        beside.write(rows(["a".to_owned()])).await.unwrap();
        timeout(LONG, hints.changed()).await.unwrap().unwrap();
        site.remove().await;
    }
}

/// PBX-016: a process that ends after it has closed its store leaves no cursor on the server.
#[tokio::test]
async fn a_change_stream_is_closed_with_its_store() {
    let Some(site) = Site::new(MONGODB).await else { return };
    let name = site.database.name().to_owned();
    let url = std::env::var(MONGODB).unwrap();
    let process = std::thread::spawn(move || {
        // What a driver leaves to its tasks ends with them.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::with_uri_str(&url).await.unwrap();
            let store = MongodbStore::new(client.database(&name)).await.unwrap();
            let mut hints = store.wakeups().expect("a replica set has change streams").0;
            timeout(LONG, hints.changed()).await.unwrap().unwrap();
            store.close().await;
        });
    });
    process.join().unwrap();
    // A cursor that was in the middle of a wait is gone when that ends, and one that was left 10 minutes later.
    let gone = async {
        while streams(&site).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, gone).await.expect("the server has let go of it");
    site.remove().await;
}

/// How many cursors of change streams the server has on the site's events.
async fn streams(site: &Site) -> usize {
    let all = doc! { "$currentOp": { "idleCursors": true, "allUsers": true } };
    let of_site =
        doc! { "ns": format!("{}.outbox_event", site.database.name()), "cursor": { "$ne": Bson::Null } };
    let of_site = doc! { "$match": of_site };
    let mut found = site.client.database("admin").aggregate([all, of_site]).await.unwrap();
    let mut count = 0;
    while found.advance().await.unwrap() {
        count += 1;
    }
    count
}
