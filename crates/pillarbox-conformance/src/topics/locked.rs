//! Rows that somebody else's transaction has locked: each delays its own outcome and nothing else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::model::{Lane, NewRow, Row, Status};
use pillarbox::port::{
    AnyTable, Change, ClaimFrom, Delivery, Fence, Handed, NoMetrics, OnDone, Order, Outcome, Promote, Reap,
    Select, Settle, Settled, Sink, StoreError, Verdict, Write,
};
use pillarbox::rules::Lease;
use tokio::sync::watch;

use crate::case::{Case, Checked, Halt, cases};
use crate::harness::{Fixture, Unlock};
use crate::item_kit::*;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("locked";
        Nothing:
            a_row_locked_by_another_transaction_delays_only_its_own_outcome,
            an_owner_settles_beside_a_locked_row,
            outcomes_of_every_kind_wait_for_their_own_row_alone,
            a_promotion_goes_on_beside_locked_rows,
            a_claim_goes_on_beside_locked_rows,
            a_reap_goes_on_beside_a_locked_row;
        Items:
            a_locked_item_delays_only_its_own_outcome,
            items_are_taken_and_recovered_beside_locked_ones;
        AnyKind:
            an_engine_goes_on_beside_a_locked_row,
    )
}

/// Locks a row in a transaction that stays open.
async fn lock(t: &Fixture, id: &str) -> Result<Unlock, Halt> {
    t.foreign.lock(id).await?.ok_or(Halt::NotApplicable("no transaction can hold a row of it"))
}

async fn settle(
    t: &Fixture,
    fence: Fence,
    outcomes: Vec<Outcome>,
    on_done: OnDone,
) -> Result<Settled, StoreError> {
    t.store
        .settle(Settle { fence, outcomes: outcomes.into(), on_done, repeats: None, now: Some(at(5)) })
        .await
}

fn of(rows: &[Row], change: impl Fn(usize) -> Change) -> Vec<Outcome> {
    rows.iter().enumerate().map(|(place, row)| outcome(row, change(place))).collect()
}

/// What of the batch is to change first and last, and what is locked, gone and locked before.
async fn one_waits(t: &Fixture, fence: Fence, rows: &[Row], on_done: OnDone) -> Checked {
    let unlock = lock(t, rows[1].id.as_str()).await?;
    t.apply(rows[2].id.as_str(), dead(), at(4)).await?;
    let outcomes = of(rows, |_| Change::Done);
    let settled = settle(t, fence.clone(), outcomes.clone(), on_done).await?;
    assert_eq!(settled, Settled { busy: vec![1], ..Settled::all_but(vec![2]) }, "{fence:?} {on_done:?}");
    for place in [0, 3] {
        let record = t.find(rows[place].id.as_str()).await?;
        assert!(record.is_none_or(|record| record.status == Status::Done), "{fence:?} {on_done:?} {place}");
    }
    assert!(t.record(rows[1].id.as_str()).await?.status.is_pending());
    unlock().await;
    let again = settle(t, fence, vec![outcomes[1].clone()], on_done).await?;
    assert_eq!(again, Settled::all_but(vec![]));
    Ok(())
}

fn named(prefix: &str, make: impl Fn(pillarbox::model::EventBuilder) -> NewRow) -> Vec<NewRow> {
    (0..4).map(|number| make(event(&format!("{prefix}{number}")))).collect()
}

/// PBX-080
async fn a_row_locked_by_another_transaction_delays_only_its_own_outcome(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for (prefix, on_done) in [("k", OnDone::Keep), ("d", OnDone::Delete)] {
        t.write(named(prefix, in_slot), at(0)).await?;
        let rows = t.pending().await?;
        one_waits(&t, Fence::Node(node(1)), &rows, on_done).await?;
        t.heartbeat(1, at(1)).await?;
    }
    Ok(())
}

/// PBX-080
async fn an_owner_settles_beside_a_locked_row(t: Fixture) -> Checked {
    for (prefix, on_done) in [("k", OnDone::Keep), ("d", OnDone::Delete)] {
        t.write(named(prefix, in_queue), at(0)).await?;
        let rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(1)).await?;
        one_waits(&t, Fence::Owner(owner("ann")), &rows, on_done).await?;
    }
    Ok(())
}

/// PBX-080
async fn outcomes_of_every_kind_wait_for_their_own_row_alone(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let changes = [
        Change::Done,
        retry(secs(1)),
        retry_later(secs(1)),
        dead_blocking("g"),
        Change::Delay,
        Change::Attempt { attempts: 1 },
    ];
    for (number, locked) in changes.iter().enumerate() {
        let rows = [format!("l{number}"), format!("f{number}")].map(|id| in_slot(event(&id)));
        t.write(rows.into(), at(0)).await?;
        let outcomes = vec![
            t.outcome(&format!("l{number}"), locked.clone()).await?,
            t.outcome(&format!("f{number}"), dead()).await?,
        ];
        let unlock = lock(&t, &format!("l{number}")).await?;
        let settled = settle(&t, Fence::Node(node(1)), outcomes.clone(), OnDone::Keep).await?;
        assert_eq!(settled, Settled { busy: vec![0], ..Settled::all_but(vec![]) }, "{locked:?}");
        assert_eq!(t.record(&format!("f{number}")).await?.status, Status::Dead);
        assert!(t.held_group("g").await?.is_none() || number > 3, "{locked:?}");
        unlock().await;
        let again = settle(&t, Fence::Node(node(1)), vec![outcomes[0].clone()], OnDone::Keep).await?;
        assert_eq!(again, Settled::all_but(vec![]), "{locked:?}");
    }
    Ok(())
}

/// PBX-080
async fn a_locked_item_delays_only_its_own_outcome(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    for (first, on_done) in [(0, OnDone::Keep), (10, OnDone::Delete)] {
        t.write((first..first + 4).map(|number| row(item(number))).collect(), at(0)).await?;
        let rows = take_all(&t, 1).await?;
        let unlock = lock(&t, &tsid(first + 1)).await?;
        let fence = Fence::Node(node(1));
        let mut outcomes = of(&rows, |place| if place == 3 { dead_blocking("g") } else { Change::Done });
        outcomes[2].token.0 += 1;
        let settled = settle(&t, fence.clone(), outcomes.clone(), on_done).await?;
        assert_eq!(settled, Settled { busy: vec![1], ..Settled::all_but(vec![2]) }, "{on_done:?}");
        t.heartbeat(1, at(1)).await?;
        unlock().await;
        let again = settle(&t, fence, vec![outcomes[1].clone()], on_done).await?;
        assert_eq!(again, Settled::all_but(vec![]));
        outcomes[2].token.0 -= 1;
        assert_eq!(
            settle(&t, Fence::Open, vec![outcomes[2].clone()], on_done).await?,
            Settled::all_but(vec![])
        );
    }
    Ok(())
}

/// Longer than any store needs, and shorter than it may wait for one command.
const SOON: Duration = Duration::from_secs(20);

/// What must not wait for a lock.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, work).await.expect("nobody waits for the lock")
}

/// PBX-080: the first and more than one of them.
async fn a_promotion_goes_on_beside_locked_rows(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let rows = (0..6).map(|number| in_slot(event(&format!("e{number}")).due(at(1)))).collect();
    t.write(rows, at(0)).await?;
    let (first, other) = (lock(&t, "e0").await?, lock(&t, "e3").await?);
    let promote = || {
        let (node, lane, order) = (node(1), Lane(64), Order::PerGroup);
        t.native().promote(Promote { node, lane, order, rows: 10, now: Some(at(2)) })
    };
    let promoted = soon(promote()).await?;
    // e3 is locked, and e2 is the row before it.
    let free =
        if t.foreign.locks_reach_neighbours() { &["e1", "e4", "e5"][..] } else { &["e1", "e2", "e4", "e5"] };
    assert_eq!((promoted.moved, promoted.next_due), (free.len(), Some(Duration::ZERO)));
    assert_eq!(ids(&t.pending().await?), free);
    assert_eq!(soon(promote()).await?.moved, 0);
    first().await;
    other().await;
    let mut moved = 0;
    while moved < 6 - free.len() {
        moved += promote().await?.moved;
    }
    assert_eq!(t.pending().await?.len(), 6);
    Ok(())
}

/// PBX-080: also if the locked ones are the first, and more than a claim may take.
async fn a_claim_goes_on_beside_locked_rows(t: Fixture) -> Checked {
    t.write((0..6).map(|number| in_queue(event(&format!("e{number}")))).collect(), at(0)).await?;
    let mut locks = Vec::new();
    for number in [0, 1, 3] {
        locks.push(lock(&t, &format!("e{number}")).await?);
    }
    let one = soon(t.claim(ClaimFrom::Queue, "ann", 1, at(1))).await?;
    assert_eq!(ids(&one), ["e2"]);
    let rest = soon(t.claim(ClaimFrom::Queue, "bob", MANY, at(1))).await?;
    assert_eq!(ids(&rest), ["e4", "e5"]);
    assert!(soon(t.claim(ClaimFrom::Queue, "bob", MANY, at(1))).await?.is_empty());
    for unlock in locks {
        unlock().await;
    }
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        claimed.extend(t.claim(ClaimFrom::Queue, "bob", 2, at(1)).await?);
    }
    claimed.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    assert_eq!(ids(&claimed), ["e0", "e1", "e3"]);
    assert!(claimed.iter().all(|row| row.attempts == 1 && row.token.0 == 1), "each was claimed once");
    Ok(())
}

/// PBX-080
async fn a_reap_goes_on_beside_a_locked_row(t: Fixture) -> Checked {
    t.write((0..3).map(|number| in_queue(event(&format!("e{number}")))).collect(), at(0)).await?;
    assert_eq!(t.claim(ClaimFrom::Queue, "ann", MANY, at(1)).await?.len(), 3);
    let unlock = lock(&t, "e0").await?;
    let late = at(10_000);
    soon(t.native().reap(Reap { older_than: secs(1), rows: MANY, now: Some(late) })).await?;
    for (id, owner) in [("e0", Some("ann")), ("e1", None), ("e2", None)] {
        assert_eq!(t.record(id).await?.locked_by.as_deref(), owner, "{id}");
    }
    unlock().await;
    while t.native().reap(Reap { older_than: secs(1), rows: MANY, now: Some(late) }).await? == 0 {}
    assert_eq!(t.record("e0").await?.locked_by, None);
    Ok(())
}

/// PBX-080, PBX-081
async fn items_are_taken_and_recovered_beside_locked_ones(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let grouped = |number: usize| row(item(number).group(format!("g{}", number / 3)));
    t.write((0..9).map(grouped).collect(), at(0)).await?;
    let (first, other) = (lock(&t, &tsid(1)).await?, lock(&t, &tsid(6)).await?);
    let taken = soon(take_all(&t, 1)).await?;
    assert_eq!(numbers(&taken), [0, 3, 4, 5], "2 stays behind 1, 7 and 8 behind 6");
    first().await;
    other().await;
    let held = lock(&t, &tsid(3)).await?;
    assert_eq!(soon(t.items().recover(recover(1, 0, 9))).await?, 3);
    held().await;
    assert_eq!(t.items().recover(recover(1, 0, 9)).await?, 1);
    assert_eq!(numbers(&take_all(&t, 10).await?), (0..9).collect::<Vec<_>>());
    Ok(())
}

/// Takes everything, and holds back its answer for the first until it is let go.
struct Holding {
    seen: Mutex<Vec<String>>,
    out: watch::Sender<bool>,
    go: watch::Receiver<bool>,
}

impl Sink for Holding {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let ids = batch.iter().map(|delivery| delivery.event.id().to_string());
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
            if batch.iter().any(|delivery| delivery.event.id().as_str() == tsid(0)) {
                self.out.send_replace(true);
                self.go.clone().wait_for(|go| *go).await.expect("it is let go");
            }
            vec![Verdict::Accepted; batch.len()]
        })
    }
}

/// PBX-080: also for longer than a lease; the node stays a member, and nothing is delivered twice.
async fn an_engine_goes_on_beside_a_locked_row(t: Fixture) -> Checked {
    const ROWS: usize = 40;
    // Long enough for a busy machine, whose heartbeats come late.
    let lease = Duration::from_secs(3);
    let make = |number| match &t.store {
        AnyTable::Items(_) => item(number),
        AnyTable::Native(_) => event(&tsid(number)),
    };
    let rows: Vec<NewRow> = (0..ROWS).map(|number| row(make(number).group(format!("g{number}")))).collect();
    t.store.write(Write { rows, now: None }).await?;
    let ((let_go, go), (out, mut is_out)) = (watch::channel(false), watch::channel(false));
    let sink = Arc::new(Holding { seen: Mutex::default(), out, go });
    let settings = EngineSettings {
        lease: Lease::new(lease).expect("a lease"),
        poll_interval: Duration::from_millis(50),
        workers: 4,
        ..EngineSettings::default()
    };
    let parts = EngineParts {
        table: t.store.clone(),
        sink: sink.clone(),
        metrics: Arc::new(NoMetrics),
        settings,
        seed: 7,
    };
    let mut engine = Engine::start(parts).await?;
    is_out.wait_for(|out| *out).await.expect("the first is out");
    let unlock = lock(&t, &tsid(0)).await;
    // The engine ends in any case.
    let told = match unlock {
        Ok(unlock) => {
            let_go.send_replace(true);
            let told = beside_the_lock(&t, ROWS, lease).await;
            unlock().await;
            until_done(&t, ROWS).await?;
            told
        }
        Err(halt) => {
            let_go.send_replace(true);
            Err(halt)
        }
    };
    engine.close().await;
    told?;
    let mut seen = sink.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..ROWS).map(tsid).collect::<Vec<_>>(), "each was delivered once");
    Ok(())
}

/// All but the locked one end, and the node sends heartbeats for two leases.
async fn beside_the_lock(t: &Fixture, rows: usize, lease: Duration) -> Checked {
    let nodes = t.store.admin().nodes().await?;
    let since = t.beside.now().await?;
    until_done(t, rows - 1).await?;
    while t.beside.now().await? < since + lease * 2 {
        let now = t.beside.admin().nodes().await?;
        assert_eq!(now.len(), 1);
        assert_eq!((now[0].node, now[0].expires_in.is_some()), (nodes[0].node, true), "the node was evicted");
    }
    assert_eq!(done(t).await?, rows - 1);
    Ok(())
}

async fn done(t: &Fixture) -> Result<usize, StoreError> {
    let select = Select { statuses: vec![Status::Done], ..Select::default() };
    Ok(usize::try_from(t.beside.admin().count(select).await?).unwrap_or_default())
}

async fn until_done(t: &Fixture, rows: usize) -> Checked {
    while done(t).await? < rows {
        tokio::task::yield_now().await;
    }
    Ok(())
}
