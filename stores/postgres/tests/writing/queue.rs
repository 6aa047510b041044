//! The queue on transactions of tokio-postgres: settles and joins, as on those of sqlx.

use std::time::Duration;

use pillarbox::model::{
    Continuation, EventId, FailedSteps, JoinId, JoinStatus, JoinWait, NewRow, OwnerId, Placement, Row,
    StepState,
};
use pillarbox::port::{
    Admin, Begin, Change, Claim, ClaimFrom, Counts, Fence, JoinAction, JoinChange, JoinChanged, Joins,
    OnDone, Outcome, Settle, Settled, Store, Table, Write, WriteOn,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::tokio_postgres::NoTls;
use tokio::task::JoinSet;

use crate::kit::{Kit, event};

fn id(text: &str) -> EventId {
    EventId::new(text).unwrap()
}

fn message(id: &str) -> NewRow {
    NewRow { event: event(id), placement: Placement::Queue }
}

fn claim(rows: usize) -> Claim {
    Claim {
        topics: std::sync::Arc::default(),
        from: ClaimFrom::Queue,
        owner: OwnerId::new("worker-ann").unwrap(),
        lease: Duration::from_secs(60),
        rows,
        bytes: pillarbox::port::ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    }
}

fn settle(row: &Row, change: Change) -> Settle {
    let outcome = Outcome { seq: row.seq, id: row.id.clone(), token: row.token, change };
    let fence = Fence::Owner(OwnerId::new("worker-ann").unwrap());
    Settle { fence, outcomes: vec![outcome].into(), on_done: OnDone::Keep, repeats: None, now: None }
}

fn change(action: JoinAction) -> JoinChange {
    JoinChange { join: JoinId::new("join-of-all").unwrap(), action, now: None }
}

fn start(expected: u32) -> JoinChange {
    change(JoinAction::Start {
        grouping_key: Some("k".to_owned()),
        expected,
        metadata: Some("{}".to_owned()),
    })
}

fn attach(messages: &[&str]) -> JoinChange {
    change(JoinAction::Attach { messages: messages.iter().map(|message| id(message)).collect() })
}

fn wait() -> JoinChange {
    let next = |topic: &str| Some(Continuation { topic: topic.to_owned(), payload: "{}".to_owned() });
    change(JoinAction::Wait(JoinWait {
        failed_steps: FailedSteps::Fail,
        on_complete: next("Transform"),
        on_fail: next("Clean"),
        message: id("next"),
        headers: None,
    }))
}

fn report(message: &str, state: StepState) -> JoinChange {
    change(JoinAction::Report { message: id(message), state })
}

async fn join_status(store: &PostgresStore) -> Option<(JoinStatus, usize)> {
    let shown = store.show_join(JoinId::new("join-of-all").unwrap(), 9).await.unwrap()?;
    Some((shown.join.status, shown.members.len()))
}

/// Everything that a transaction can do with joins, on whatever transaction it is.
async fn all_of_it<Tx>(store: &impl WriteOn<Tx>, tx: &mut Tx, row: &Row) {
    store.insert(tx, &[message("b"), message("c")]).await.unwrap();
    let mut changed = Vec::new();
    let of_b =
        [report("b", StepState::Completed), report("b", StepState::Failed), report("x", StepState::Failed)];
    for change in [
        start(2),
        start(2),
        attach(&["a", "b", "c"]),
        attach(&["a", "z"]),
        attach(&["a", "b"]),
        wait(),
        wait(),
    ]
    .into_iter()
    .chain(of_b)
    {
        changed.push(store.change_join_on(tx, change).await.unwrap());
    }
    let expected = [
        JoinChanged::Changed,
        JoinChanged::Unchanged,
        JoinChanged::Full { expected: 2 },
        JoinChanged::NoSuchMessage(id("z")),
        JoinChanged::Changed,
        JoinChanged::Changed,
        JoinChanged::AlreadyWaiting,
        JoinChanged::Changed,
        JoinChanged::Unchanged,
        JoinChanged::NotAMember,
    ];
    assert_eq!(changed, expected);
    let held = Settled::all_but(Vec::new());
    let again = Settled::all_but(vec![0]);
    let dead = Change::Dead { error: "no".to_owned(), counts: Counts::NotMade(0), blocks: None };
    for expected in [held, again] {
        assert_eq!(store.settle_on(tx, settle(row, dead.clone())).await.unwrap(), expected);
    }
    let cancel = change(JoinAction::Cancel { by: "ann".to_owned() });
    assert_eq!(store.change_join_on(tx, cancel).await.unwrap(), JoinChanged::Ended(JoinStatus::Failed));
}

async fn claimed(kit: &Kit) -> Row {
    kit.store.write(Write { rows: vec![message("a")], now: None }).await.unwrap();
    kit.store.claim(claim(1)).await.unwrap().remove(0)
}

async fn is_done(kit: &Kit) {
    assert_eq!(join_status(&kit.store).await, Some((JoinStatus::Failed, 2)));
    let next = kit.store.show(id("next")).await.unwrap().expect("the continuation").record;
    assert_eq!(next.event.unwrap().event_type(), "Clean");
    let ended = kit.store.show(id("a")).await.unwrap().unwrap().record;
    assert_eq!((ended.processed_by.as_deref(), ended.locked_by), (Some("worker-ann"), None));
}

/// PBX-025, OBX-003, OBX-097: on a transaction that the pipelined store began.
#[tokio::test]
async fn joins_and_settles_commit_with_a_pipelined_transaction() {
    let Some(kit) = Kit::new("joins_and_settles_commit_with_a_pipelined_transaction").await else { return };
    let store = kit.pipelined(1);
    let row = claimed(&kit).await;
    let mut tx = store.begin().await.unwrap();
    all_of_it(&store, &mut tx, &row).await;
    store.rollback(tx).await.unwrap();
    assert_eq!(join_status(&kit.store).await, None, "nothing of it is left");
    let mut tx = store.begin().await.unwrap();
    all_of_it(&store, &mut tx, &row).await;
    store.commit(tx).await.unwrap();
    is_done(&kit).await;
}

/// PBX-025, OBX-003, OBX-097: on transactions of the caller's, of a client and of a pool.
#[tokio::test]
async fn joins_and_settles_are_part_of_a_callers_transaction() {
    let Some(kit) = Kit::new("joins_and_settles_are_part_of_a_callers_transaction").await else { return };
    let row = claimed(&kit).await;
    let (mut client, connection) = kit.config().connect(NoTls).await.unwrap();
    let mut talking = JoinSet::new();
    talking.spawn(connection);
    let mut tx = client.transaction().await.unwrap();
    all_of_it(&kit.store, &mut tx, &row).await;
    tx.rollback().await.unwrap();
    let mut object = kit.pipelined(1).pool().get().await.unwrap();
    let mut tx = object.transaction().await.unwrap();
    all_of_it(&kit.store, &mut tx, &row).await;
    tx.commit().await.unwrap();
    is_done(&kit).await;
    drop(client);
    talking.join_next().await.unwrap().unwrap().unwrap();
}
