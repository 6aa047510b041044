//! Rows that somebody else's transaction has locked: each delays its own outcome and nothing else.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::model::{NewRow, Row, Status};
use pillarbox::port::{
    AnyTable, Change, ClaimFrom, Delivery, Fence, Handed, NoMetrics, OnDone, Outcome, Select, Settle,
    Settled, Sink, StoreError, Verdict, Write,
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
            outcomes_of_every_kind_wait_for_their_own_row_alone;
        Items:
            a_locked_item_delays_only_its_own_outcome;
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
    t.store.settle(Settle { fence, outcomes: outcomes.into(), on_done, now: Some(at(5)) }).await
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
        Change::Attempt,
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
