//! What tests of grants let the users of the guides do on the native table.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{
    Continuation, EventId, FailedSteps, GroupKey, JoinId, JoinStatus, JoinWait, Lane, NewRow, NodeId,
    OwnerId, Placement, Row, Seq, SlotSet, Token, Written,
};
use pillarbox::port::{
    Admin, Begin, ByteLimits, Cancel, Change, Claim, ClaimFrom, Counts, Cursor, Discard, ErrorKind, Fence,
    Fetch, GroupAction, GroupChange, Heartbeat, JoinAction, JoinChange, OnDone, Order, Outcome, Promote,
    Purge, PurgeStatus, ReadScope, Reap, Register, Replay, Scope, Select, Settle, Store, StoreError, Wait,
    Write,
};

/// Statements that are denied to a user who may only write.
pub const FORBIDDEN_TO_WRITERS: [&str; 7] = [
    "SELECT payload FROM shop.outbox_event",
    "INSERT INTO shop.outbox_event (event_id, event_type, payload, seq) VALUES ('i', 't', '{}', 0)",
    "INSERT INTO shop.outbox_event (event_id, event_type, payload, status) VALUES ('i', 't', '{}', 1)",
    "INSERT INTO shop.outbox_event (event_id, event_type, payload, attempts) VALUES ('i', 't', '{}', 9)",
    "UPDATE shop.outbox_event SET status = 1",
    "DELETE FROM shop.outbox_event",
    "SELECT * FROM shop.outbox_node",
];

fn event(group: &str) -> Event {
    Event::text("OrderPlaced", "{}").group(group).build().expect("a valid event")
}

/// What the library does in a process that only writes.
pub async fn write_native<S: Begin>(store: &S) -> Result<Vec<Written>, StoreError> {
    store.admin().check().await?;
    let mut tx = store.begin().await?;
    let once = Event::text("OrderPlaced", "{}").message_id(EventId::uuid_v7().to_string()).build()?;
    let delayed = Event::text("OrderPlaced", "{}").due(Duration::from_secs(3_600)).build()?;
    let row = |event| NewRow { event, placement: Placement::Slot };
    let mut written = store.insert(&mut tx, &[row(event("a"))]).await?;
    written.extend(store.insert(&mut tx, &[row(event("b")), row(event("c")), row(delayed)]).await?);
    // The second one is the same event.
    for _ in 0..2 {
        written.extend(store.insert(&mut tx, &[row(once.clone())]).await?);
    }
    store
        .commit(tx)
        .await
        .map_err(|error| StoreError::new(ErrorKind::Conflict, "commit", "x", error.to_string()))?;
    assert!(!written.last().expect("a written row").fresh);
    Ok(written)
}

/// What a node does from its start to its end.
pub async fn deliver_native(store: &dyn Store, node: NodeId, rows: &[Written]) -> Result<(), StoreError> {
    store.admin().check().await?;
    let lease = Duration::from_secs(60);
    let joined = store
        .register(Register { node, label: "grants".to_owned(), reads: ReadScope::Share, lease, now: None })
        .await?;
    let slots = SlotSet::new(joined.held.iter().map(|held| held.slot));
    let scope = Scope::Slots { slots, cursor: Cursor::default() };
    let fetch = Fetch { scope, rows: 100, bytes: ByteLimits::NONE, skip_recent: Duration::ZERO, now: None };
    let fetched = store.fetch(fetch).await?;
    assert!(!fetched.rows.is_empty(), "nothing to deliver");
    let outcome = |index: usize, change| Outcome {
        seq: rows[index].seq,
        id: rows[index].id.clone(),
        token: Token(0),
        change,
    };
    let settle = |outcomes: Vec<Outcome>, on_done| Settle {
        fence: Fence::Node(node),
        outcomes: outcomes.into(),
        on_done,
        repeats: None,
        now: None,
    };
    store.settle(settle(vec![outcome(0, Change::Done)], OnDone::Keep)).await?;
    store.settle(settle(vec![outcome(4, Change::Done)], OnDone::Delete)).await?;
    let (error, delay) = ("no".to_owned(), Duration::ZERO);
    let dead =
        Change::Dead { error: error.clone(), counts: Counts::Made(1), blocks: Some(GroupKey::new("b")) };
    let retry = Change::Retry { delay, error, counts: Counts::Made(1), wait: Wait::Delayed };
    store.settle(settle(vec![outcome(1, dead), outcome(2, retry)], OnDone::Keep)).await?;
    let promote = Promote { node, lane: Lane(64), order: Order::PerGroup, rows: 10, now: None };
    assert_eq!(store.promote(promote).await?.moved, 1);
    let heartbeat = |release, sweep| Heartbeat {
        node,
        lease,
        trusted: Vec::new(),
        release,
        groups_seen: 0,
        after: Seq(0),
        sweep,
        now: None,
    };
    store.heartbeat(heartbeat(Vec::new(), false)).await?.expect("a member");
    store.heartbeat(heartbeat(vec![joined.held[0].slot], true)).await?.expect("a member");
    store
        .admin()
        .purge(Purge { status: PurgeStatus::Done, older_than: Duration::ZERO, limit: 10, now: None })
        .await?;
    store.leave(node).await
}

/// What a worker of the queue does, with a join that ends.
pub async fn work_queue(store: &dyn Store) -> Result<(), StoreError> {
    store.admin().check().await?;
    let (id, join) = (EventId::uuid_v7(), JoinId::random());
    let joins = store.joins().expect("a store with joins");
    let event = Event::text("Extract", "{}").id(id.as_str()).build()?;
    store.write(Write { rows: vec![NewRow { event, placement: Placement::Queue }], now: None }).await?;
    let wait = JoinWait {
        failed_steps: FailedSteps::Fail,
        on_complete: Some(Continuation { topic: "Transform".to_owned(), payload: "{}".to_owned() }),
        on_fail: None,
        message: EventId::uuid_v7(),
        headers: None,
    };
    for action in [
        JoinAction::Start { grouping_key: None, expected: 1, metadata: None },
        JoinAction::Attach { messages: vec![id] },
        JoinAction::Wait(wait),
    ] {
        joins.change_join(JoinChange { join: join.clone(), action, now: None }).await?;
    }
    let owner = OwnerId::new("worker")?;
    let (lease, skip_recent) = (Duration::from_secs(60), Duration::ZERO);
    let claim = Claim {
        topics: std::sync::Arc::default(),
        from: ClaimFrom::Queue,
        owner: owner.clone(),
        lease,
        rows: 100,
        bytes: ByteLimits::NONE,
        skip_recent,
        now: None,
    };
    let claimed = store.claim(claim).await?;
    let done =
        |row: &Row| Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change: Change::Done };
    let outcomes = claimed.iter().map(done).collect();
    store
        .settle(Settle {
            fence: Fence::Owner(owner),
            outcomes,
            on_done: OnDone::Keep,
            repeats: None,
            now: None,
        })
        .await?;
    let shown = joins.show_join(join, 1).await?.expect("the join");
    assert_eq!(shown.join.status, JoinStatus::Completed);
    store.reap(Reap { older_than: Duration::ZERO, rows: 10, now: None }).await.map(drop)
}

/// What people do with the command line, on tables of either kind.
pub async fn operate(store: &dyn Admin) -> Result<(), StoreError> {
    let by = "grants".to_owned();
    store.stats().await?;
    store.nodes().await?;
    store.audit(10).await?;
    let group = GroupKey::new("z");
    for action in [GroupAction::Pause, GroupAction::Resume] {
        let change = GroupChange { group: group.clone(), action, by: by.clone(), reason: None, now: None };
        store.change_group(change).await?;
    }
    store.replay(Replay { select: Select::default(), limit: 10, by: by.clone(), now: None }).await?;
    store.discard(Discard { select: Select::default(), limit: 10, by: by.clone(), now: None }).await?;
    store.cancel(Cancel { ids: vec![EventId::from_row("none")], by, now: None }).await?;
    Ok(())
}

/// The grants below a heading of a guide, one for each privilege, table and user, as in `SELECT`,
/// `shop.outbox_event`, `shop_deliver`. A privilege on columns is one grant for each column.
///
/// # Panics
/// If the guide has no such heading with SQL below it.
#[must_use]
pub fn grants_of(guide: &str, heading: &str) -> Vec<[String; 3]> {
    let sql = sql_of(guide, heading);
    let sql: String = sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ");
    let mut grants = Vec::new();
    for statement in sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let grant = statement.strip_prefix("GRANT ").expect("a grant");
        // `GRANT shop_deliver TO shop_operate` grants a role.
        let Some((privileges, rest)) = grant.split_once(" ON ") else { continue };
        let (things, user) = rest.split_once(" TO ").expect("a user");
        let sequence = if things.starts_with("SEQUENCE ") { "SEQUENCE " } else { "" };
        for thing in things.trim_start_matches("SEQUENCE ").split(", ") {
            let each = each_privilege(privileges.trim()).into_iter();
            grants.extend(each.map(|one| [one, format!("{sequence}{thing}"), user.to_owned()]));
        }
    }
    grants
}

/// The SQL below a heading of a guide.
///
/// # Panics
/// If the guide has no such heading with SQL below it.
#[must_use]
pub fn sql_of(guide: &str, heading: &str) -> String {
    let (_, after) = guide.split_once(&format!("### {heading}\n")).expect("the heading");
    let (_, sql) = after.split_once("```sql\n").expect("its SQL");
    sql.split_once("```").expect("its end").0.to_owned()
}

/// Single privileges, with one for each column: `INSERT (a, b)` is `INSERT (a)` and `INSERT (b)`.
fn each_privilege(privileges: &str) -> Vec<String> {
    match privileges.split_once(" (") {
        Some((verb, columns)) => {
            let columns = columns.trim_end().trim_end_matches(')').split(',').map(str::trim);
            columns.map(|column| format!("{verb} ({column})")).collect()
        }
        None => privileges.split(", ").map(str::to_owned).collect(),
    }
}
