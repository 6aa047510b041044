//! Rows that are too large to be rewritten: dead without being changed, and otherwise as every dead row.

use std::time::Duration;

use pillarbox::model::{
    Event, EventId, GroupKey, Lane, NewRow, NodeId, OwnerId, Placement, Record, Row, Status,
};
use pillarbox::port::{
    Admin, ByteLimits, Cancel, Change, Claim, ClaimFrom, Counts, Discard, Fence, GroupAction, GroupChange,
    GroupState, HeldGroups, ItemStore, List, OnDone, Order, Outcome, Purge, PurgeStatus, ReadScope, Recover,
    Register, Replay, Select, Settle, Store, Table, Take, Write,
};
use pillarbox_sqlite::{SqliteItemStore, SqliteStore};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::kit::{Outbox, event, fetch_all, write};

const WHY: &str = "too large";
const NODE: u128 = 7;
/// What a relay loads at most unless it is set otherwise.
const LIMITS: ByteLimits = ByteLimits { total: 16 << 20, row: 16 << 20 };
/// 18 MiB of text.
const HUGE: &str = "hex(zeroblob(9 << 20))";

fn id(id: &str) -> EventId {
    EventId::new(id).unwrap()
}

fn selected(id: &str) -> Select {
    Select { ids: vec![EventId::from_row(id)], ..Select::default() }
}

fn settle(fence: Fence, row: &Row, change: Change) -> Settle {
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change };
    Settle { fence, outcomes: vec![outcome].into(), on_done: OnDone::Keep, repeats: None, now: None }
}

fn dead(fence: Fence, row: &Row, blocks: Option<&str>) -> Settle {
    let (error, blocks) = (WHY.to_owned(), blocks.map(GroupKey::new));
    settle(fence, row, Change::Dead { error, counts: Counts::NotMade(0), blocks })
}

fn replay(id: &str) -> Replay {
    Replay { select: selected(id), limit: 9, by: "ann".to_owned(), now: None }
}

async fn listed(store: &impl Admin, statuses: Vec<Status>) -> Vec<Record> {
    let select = Select { statuses, ..Select::default() };
    let records = store.list(List { select: select.clone(), limit: 9, ..List::default() }).await.unwrap();
    assert_eq!(store.count(select).await.unwrap(), records.len() as u64);
    records
}

/// Demands that operators see one dead event of two, without its contents.
async fn is_seen_as_dead(store: &impl Admin, dead: &str) {
    for record in [
        listed(store, vec![Status::Dead]).await.remove(0),
        store.show(EventId::from_row(dead)).await.unwrap().unwrap().record,
    ] {
        assert_eq!((record.id.as_str(), record.status), (dead, Status::Dead));
        assert_eq!(record.last_error.as_deref(), Some(WHY));
        assert!(record.done_at.is_some());
        assert!(record.event.unwrap_err().to_string().contains("left out"));
    }
    assert_eq!(listed(store, vec![Status::New, Status::Retry]).await.len(), 1);
    assert_eq!(listed(store, vec![]).await.len(), 2);
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.by_status(), stats.dead_by_type[0].count), ([1, 0, 0, 1], 1));
    let cancel = Cancel { ids: vec![EventId::from_row(dead)], by: "ann".to_owned(), now: None };
    assert_eq!(store.cancel(cancel).await.unwrap(), [], "only pending events are cancelled");
}

/// Purges dead events that ended before now; then nothing is left of the row.
async fn is_purged(store: &impl Admin) {
    let later = Some(jiff::Timestamp::now() + Duration::from_secs(60));
    let purge = Purge { status: PurgeStatus::Dead, older_than: Duration::ZERO, limit: 9, now: later };
    assert_eq!(store.purge(purge).await.unwrap(), 1);
    assert_eq!(listed(store, vec![Status::Dead]).await.len(), 0);
    assert_eq!(store.stats().await.unwrap().by_status()[3], 0);
}

/// Two events of group `g`, of which the first, `a`, is huge.
async fn outbox(placement: Placement) -> Outbox {
    let outbox = Outbox::new().await;
    let grouped =
        |id: &str| NewRow { event: Event::text("T", "{}").id(id).group("g").build().unwrap(), placement };
    write(&outbox.store, vec![grouped("a"), grouped("b")]).await.unwrap();
    let set = format!("UPDATE outbox_event SET payload = {HUGE} WHERE event_id = 'a'");
    outbox.connection().execute(&set, []).unwrap();
    outbox
}

async fn ids_read(store: &SqliteStore) -> Vec<String> {
    fetch_all(store).await.rows.iter().map(|row| row.id.to_string()).collect()
}

/// PBX-013
#[tokio::test]
async fn a_row_too_large_to_be_rewritten_is_dead_and_unchanged() {
    let outbox = outbox(Placement::Slot).await;
    let row = fetch_all(&outbox.store).await.rows.remove(0);
    assert!(outbox.store.settle(dead(Fence::Open, &row, Some("g"))).await.unwrap().stale.is_empty());
    assert_eq!(
        outbox.number("SELECT status FROM outbox_event WHERE event_id = 'a'"),
        0,
        "it is not rewritten"
    );
    assert_eq!(ids_read(&outbox.store).await, ["b"]);
    is_seen_as_dead(&outbox.store, "a").await;
    let again = outbox.store.settle(dead(Fence::Open, &row, None)).await.unwrap();
    assert_eq!(again.stale, [0], "it is no longer pending");
    let groups = outbox.store.groups(HeldGroups::first()).await.unwrap();
    assert_eq!((groups[0].state, groups[0].event.clone()), (GroupState::Blocked, Some(id("a"))));
    let (group, action) = (GroupKey::new("g"), GroupAction::Unblock);
    let unblock = GroupChange { group, action, reason: None, by: "ann".to_owned(), now: None };
    assert!(outbox.store.change_group(unblock).await.unwrap());
    assert_eq!(ids_read(&outbox.store).await, ["a", "b"], "it is replayed in its place");
    assert_eq!(outbox.number("SELECT count(*) FROM outbox_oversized"), 0);
}

/// PBX-013
#[tokio::test]
async fn a_row_too_large_to_be_rewritten_is_replayed_discarded_and_purged() {
    let outbox = outbox(Placement::Slot).await;
    let store = &outbox.store;
    let first = fetch_all(store).await.rows.remove(0);
    store.settle(dead(Fence::Open, &first, None)).await.unwrap();
    assert_eq!(store.replay(replay("a")).await.unwrap(), 1);
    let row = fetch_all(store).await.rows.remove(1);
    assert!(row.seq > first.seq, "it goes to the end of the order");
    assert_eq!(row.event.as_ref().unwrap().payload().as_bytes().len(), 18 << 20, "nothing is lost");
    assert_eq!(listed(store, vec![Status::Dead]).await.len(), 0);
    store.settle(dead(Fence::Open, &row, None)).await.unwrap();
    let discard = Discard { select: selected("a"), limit: 9, by: "ann".to_owned(), now: None };
    assert_eq!(store.discard(discard).await.unwrap(), 1);
    let left = "SELECT (SELECT count(*) FROM outbox_event) * 10 + (SELECT count(*) FROM outbox_oversized)";
    assert_eq!(outbox.number(left), 10, "one row, and none set aside");

    write(store, vec![event("c")]).await.unwrap();
    let set = format!("UPDATE outbox_event SET headers = {HUGE} WHERE event_id = 'c'");
    outbox.connection().execute(&set, []).unwrap();
    let row = fetch_all(store).await.rows.remove(1);
    assert!(row.event.is_err());
    store.settle(dead(Fence::Open, &row, None)).await.unwrap();
    is_seen_as_dead(store, "c").await;
    is_purged(store).await;
    assert_eq!(outbox.number(left), 10);
}

/// PBX-013, OBX-050
#[tokio::test]
async fn a_message_too_large_to_be_rewritten_is_not_claimed_and_dies() {
    let outbox = outbox(Placement::Queue).await;
    let owner = OwnerId::new("ann").unwrap();
    let claim = |bytes, topics: &[&str]| Claim {
        from: ClaimFrom::Queue,
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        owner: owner.clone(),
        lease: Duration::from_secs(60),
        rows: 9,
        bytes,
        skip_recent: Duration::ZERO,
        now: None,
    };
    let rows = outbox.store.claim(claim(LIMITS, &["T"])).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| (row.token.0, row.event.is_ok())).collect::<Vec<_>>(),
        [(0, false), (1, true)]
    );
    assert_eq!(outbox.number("SELECT lock_token + attempts FROM outbox_event WHERE event_id = 'a'"), 0);
    let settled = outbox.store.settle(dead(Fence::Owner(owner.clone()), &rows[0], None)).await.unwrap();
    assert!(settled.stale.is_empty());
    assert_eq!(outbox.store.claim(claim(LIMITS, &[])).await.unwrap().len(), 0);
    is_seen_as_dead(&outbox.store, "a").await;
    assert_eq!(outbox.store.replay(replay("a")).await.unwrap(), 1);
    let rows = outbox.store.claim(claim(ByteLimits::NONE, &["T"])).await.unwrap();
    assert_eq!(
        (rows[0].token.0, rows[0].event.is_ok()),
        (1, true),
        "what is loaded is claimed like any other"
    );
    let row = outbox.number("SELECT lane FROM outbox_event WHERE event_id = 'a'");
    assert_eq!(row, i64::from(Lane::QUEUE.0));
}

struct Items {
    folder: TempDir,
    store: SqliteItemStore,
}

impl Items {
    /// Two items of one group, of which the first is huge, and a leader.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::builder(folder.path().join("items.db")).open_items().unwrap();
        store.migrate().await.unwrap();
        let items = Self { folder, store };
        let written = |number: u8| {
            let event = Event::text("EVENT", "{}").id(format!("00000000000{number:02}")).group("g");
            NewRow { event: event.build().unwrap(), placement: Placement::Slot }
        };
        items.store.write(Write { rows: vec![written(1), written(2)], now: None }).await.unwrap();
        let set = format!("UPDATE outbox_events SET payload = {HUGE} WHERE id = '{FIRST}'");
        items.connection().execute(&set, []).unwrap();
        let (label, lease) = ("a".to_owned(), Duration::from_secs(600));
        let node = NodeId::from_random(NODE);
        let register = Register { node, label, reads: ReadScope::Share, lease, now: None };
        items.store.register(register).await.unwrap();
        items
    }

    fn connection(&self) -> Connection {
        Connection::open(self.folder.path().join("items.db")).unwrap()
    }

    fn text(&self, sql: &str) -> String {
        self.connection().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    async fn take(&self, bytes: ByteLimits) -> Vec<Row> {
        let node = NodeId::from_random(NODE);
        let take = Take {
            node,
            after: None,
            except: Vec::new(),
            rows: 9,
            bytes,
            each: 9,
            ungrouped: 9,
            ungrouped_order: Order::None,
            now: None,
        };
        self.store.take(take).await.unwrap().rows
    }

    async fn settle(&self, row: &Row, change: Change) -> bool {
        let settled =
            self.store.settle(settle(Fence::Node(NodeId::from_random(NODE)), row, change)).await.unwrap();
        settled.stale.is_empty()
    }

    async fn die(&self, row: &Row) -> bool {
        let change = Change::Dead { error: WHY.to_owned(), counts: Counts::NotMade(0), blocks: None };
        self.settle(row, change).await
    }
}

const FIRST: &str = "0000000000001";

/// PBX-013
#[tokio::test]
async fn an_item_too_large_to_be_rewritten_is_dead_and_unchanged() {
    let items = Items::new().await;
    let rows = items.take(LIMITS).await;
    assert_eq!(rows.iter().map(|row| row.event.is_ok()).collect::<Vec<_>>(), [false, true]);
    assert!(items.die(&rows[0]).await);
    assert!(!items.die(&rows[0]).await, "it is no longer pending");
    assert!(items.settle(&rows[1], Change::Release { attempts: 0 }).await);
    assert_eq!(
        items.text("SELECT status || octet_length(payload) FROM outbox_events LIMIT 1"),
        "PENDING18874368"
    );
    is_seen_as_dead(&items.store, FIRST).await;
    let rows = items.take(LIMITS).await;
    assert_eq!(rows.len(), 1, "it is not taken again");
    assert!(items.settle(&rows[0], Change::Done).await);
    let node = NodeId::from_random(NODE);
    let recover = Recover { node, older_than: Duration::ZERO, except: Vec::new(), rows: 9, now: None };
    assert_eq!(items.store.recover(recover).await.unwrap(), 0);

    assert_eq!(items.store.replay(replay(FIRST)).await.unwrap(), 1);
    let rows = items.take(ByteLimits::NONE).await;
    assert_eq!(rows[0].event.as_ref().unwrap().payload().as_bytes().len(), 18 << 20, "nothing is lost");
    assert!(items.settle(&rows[0], Change::Done).await, "what is loaded is taken like any other");
}

/// PBX-013
#[tokio::test]
async fn an_item_too_large_to_be_rewritten_is_purged_and_its_id_can_be_used_again() {
    let items = Items::new().await;
    let rows = items.take(LIMITS).await;
    assert!(items.die(&rows[0]).await);
    assert!(items.settle(&rows[1], Change::Release { attempts: 0 }).await);
    // Its owner deletes it and writes another under its id.
    let shrink = format!("UPDATE outbox_events SET payload = '{{}}' WHERE id = '{FIRST}'");
    items.connection().execute(&shrink, []).unwrap();
    assert_eq!(listed(&items.store, vec![Status::Dead]).await.len(), 0);
    let rows = items.take(LIMITS).await;
    assert_eq!((rows.len(), rows[0].event.is_ok()), (2, true), "it is another item");
    assert!(items.settle(&rows[0], Change::Release { attempts: 0 }).await);
    assert!(items.settle(&rows[1], Change::Release { attempts: 0 }).await);
    let grow = format!("UPDATE outbox_events SET payload = {HUGE} || 'x' WHERE id = '{FIRST}'");
    items.connection().execute(&grow, []).unwrap();
    let rows = items.take(LIMITS).await;
    assert!(items.die(&rows[0]).await);
    assert!(items.settle(&rows[1], Change::Release { attempts: 0 }).await);
    is_seen_as_dead(&items.store, FIRST).await;
    is_purged(&items.store).await;
    assert_eq!(items.text("SELECT count(*) || '' FROM outbox_events_oversized"), "0");
}

/// PBX-013, RLY-052: tables that an earlier release made lack the table of what was set aside; then the row itself is marked.
#[tokio::test]
async fn items_beside_tables_of_an_earlier_release_die_in_place_until_they_are_migrated() {
    let items = Items::new().await;
    items.connection().execute_batch("DROP TABLE outbox_events_oversized").unwrap();
    let store = SqliteStore::builder(items.folder.path().join("items.db")).open_items().unwrap();
    let items = Items { store, ..items };
    let rows = items.take(LIMITS).await;
    assert!(items.die(&rows[0]).await);
    assert_eq!(items.text("SELECT status FROM outbox_events LIMIT 1"), "FAILED");
    assert_eq!(listed(&items.store, vec![Status::Dead]).await.len(), 1);
    items.store.migrate().await.unwrap();
    assert_eq!(items.store.replay(replay(FIRST)).await.unwrap(), 1);
    assert!(items.settle(&rows[1], Change::Release { attempts: 0 }).await);
    let rows = items.take(LIMITS).await;
    assert!(items.die(&rows[0]).await);
    assert_eq!(items.text("SELECT status FROM outbox_events LIMIT 1"), "PENDING");
}
