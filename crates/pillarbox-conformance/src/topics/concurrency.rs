//! Many at once: every row is had by one, settled once, and nobody loses one.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox::model::{NewRow, Row, Status};
use pillarbox::port::{
    Change, ClaimFrom, Cursor, Fence, Fetch, OnDone, Order, Promote, Purge, PurgeStatus, ReadScope, Register,
    Replay, Scope, Select, Settle, Store, StoreError, Write,
};
use tokio::task::JoinSet;

use crate::case::{Case, Checked, Halt, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("concurrency"; Nothing:
        two_claimers_never_get_one_row,
        a_row_is_settled_once,
        parallel_writers_lose_nothing,
        one_message_id_written_by_many_is_one_event,
        a_reader_beside_writers_sees_every_row,
        slots_have_one_holder_however_many_join,
        evicting_and_settling_do_not_mix,
        a_row_is_promoted_once,
        replay_and_purge_never_both_take_a_row,
        a_call_that_is_dropped_happens_whole_or_not_at_all,
        a_hint_tells_of_rows_written_elsewhere,
    )
}

const TASKS: usize = 6;
/// Enough for one task to do the work of all.
const ROUNDS: usize = 45;

/// Runs the same work in several tasks, half of them on the second handle.
async fn in_parallel<F, R, T>(t: &Fixture, work: F) -> Result<Vec<T>, StoreError>
where
    F: Fn(usize, Arc<dyn Store>) -> R,
    R: Future<Output = Result<T, StoreError>> + Send + 'static,
    T: Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let store = native(if number % 2 == 0 { &t.store } else { &t.beside });
        tasks.spawn(work(number, Arc::clone(store)));
    }
    tasks.join_all().await.into_iter().collect()
}

/// Asks again what lost against another transaction.
async fn patiently<T, R>(call: impl Fn() -> R) -> Result<T, StoreError>
where
    R: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..100 {
        match call().await {
            Err(error) if error.is_transient() => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
    call().await
}

fn many(prefix: &str, count: usize) -> Vec<NewRow> {
    (0..count).map(|n| in_slot(event(&format!("{prefix}{n}")))).collect()
}

fn names(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.id.to_string()).collect()
}

/// EVT-047
async fn two_claimers_never_get_one_row(t: Fixture) -> Checked {
    t.write(many("e", 300), at(0)).await?;
    let claimed = in_parallel(&t, |number, store| async move {
        let mut mine = Vec::new();
        for _ in 0..ROUNDS {
            let request = claim(ClaimFrom::Events, &format!("owner-{number}"), 7, at(1));
            let rows = patiently(|| store.claim(request.clone())).await?;
            mine.extend(names(&rows));
        }
        Ok(mine)
    });
    let claimed: Vec<String> = claimed.await?.concat();
    assert_eq!(claimed.len(), 300);
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>().len(), 300, "a row was claimed twice");
    Ok(())
}

/// EVT-043
async fn a_row_is_settled_once(t: Fixture) -> Checked {
    t.write(many("e", 200), at(0)).await?;
    let outcomes: Arc<[_]> = t.pending().await?.iter().map(|row| outcome(row, Change::Done)).collect();
    let changed = in_parallel(&t, |_, store| {
        let outcomes = Arc::clone(&outcomes);
        async move {
            let mut changed = 0;
            for chunk in outcomes.chunks(20) {
                let settle = Settle {
                    fence: Fence::Open,
                    outcomes: chunk.into(),
                    on_done: OnDone::Keep,
                    repeats: None,
                    now: Some(at(1)),
                };
                changed += chunk.len() - settle_whole(&*store, settle).await?.len();
            }
            Ok(changed)
        }
    });
    assert_eq!(changed.await?.iter().sum::<usize>(), 200, "each row is changed by one of them");
    Ok(())
}

/// EVT-030
async fn parallel_writers_lose_nothing(t: Fixture) -> Checked {
    let numbers = in_parallel(&t, |number, store| async move {
        let mut numbers = Vec::new();
        for n in 0..20 {
            let rows = many(&format!("w{number}-{n}-"), 3);
            let written = patiently(|| store.write(Write { rows: rows.clone(), now: Some(at(0)) })).await?;
            numbers.extend(written.iter().map(|one| one.seq));
        }
        Ok(numbers)
    });
    let numbers = numbers.await?;
    assert!(
        numbers.iter().all(|mine| mine.windows(2).all(|pair| pair[0] < pair[1])),
        "each writer's numbers grow"
    );
    let distinct: BTreeSet<_> = numbers.concat().into_iter().collect();
    assert_eq!(distinct.len(), TASKS * 60);
    assert_eq!(t.pending().await?.len(), TASKS * 60);
    Ok(())
}

/// EVT-042
async fn one_message_id_written_by_many_is_one_event(t: Fixture) -> Checked {
    for round in 0..10 {
        let fresh = in_parallel(&t, |number, store| async move {
            let row = in_slot(event(&format!("e{round}-{number}")).message_id(format!("m{round}")));
            let written =
                patiently(|| store.write(Write { rows: vec![row.clone()], now: Some(at(0)) })).await?;
            Ok((written[0].id.clone(), written[0].fresh))
        });
        let fresh = fresh.await?;
        assert_eq!(fresh.iter().filter(|(_, fresh)| *fresh).count(), 1, "{fresh:?}");
        assert!(fresh.iter().all(|(id, _)| *id == fresh[0].0), "all are told of the same event");
    }
    assert_eq!(t.pending().await?.len(), 10);
    Ok(())
}

/// PBX-010
async fn a_reader_beside_writers_sees_every_row(t: Fixture) -> Checked {
    let mut writers = JoinSet::new();
    for number in 0..4 {
        let store = if number % 2 == 0 { &t.store } else { &t.beside }.clone();
        writers.spawn(async move {
            for n in 0..40 {
                let rows = many(&format!("w{number}-{n}-"), 2);
                patiently(|| store.write(Write { rows: rows.clone(), now: Some(at(0)) })).await?;
            }
            Ok::<(), StoreError>(())
        });
    }
    let (mut cursor, mut seen) = (Cursor::default(), BTreeSet::new());
    let mut writing = true;
    while writing {
        writing = !writers.is_empty();
        while let Some(ended) = writers.try_join_next() {
            ended.expect("a writer panicked")?;
        }
        let scope = Scope::Slots { slots: t.every_slot(), cursor: cursor.clone() };
        let fetched = t.native().fetch(Fetch { rows: 50, ..fetch(scope, at(0)) }).await?;
        cursor = fetched.cursor;
        seen.extend(names(&fetched.rows));
        tokio::task::yield_now().await;
        writing |= fetched.more;
    }
    assert_eq!(seen.len(), 320, "rows were passed by");
    Ok(())
}

/// PBX-011
async fn slots_have_one_holder_however_many_join(t: Fixture) -> Checked {
    let memberships = in_parallel(&t, |number, store| async move {
        let id = node(number as u128 + 1);
        let join = Register {
            node: id,
            label: String::new(),
            reads: ReadScope::Share,
            lease: LEASE,
            now: Some(at(0)),
        };
        patiently(|| store.register(join.clone())).await?;
        let mut told = None;
        for now in 1..6 {
            let plain = heartbeat(number as u128 + 1, at(now));
            let give = patiently(|| store.heartbeat(plain.clone())).await?.expect("a member").give;
            let release = pillarbox::port::Heartbeat { release: give, ..plain };
            told = patiently(|| store.heartbeat(release.clone())).await?;
        }
        Ok(told.expect("a member").lane)
    });
    let lanes: BTreeSet<_> = memberships.await?.into_iter().collect();
    assert_eq!(lanes.len(), TASKS, "each has a lane of its own");
    let nodes = t.store.admin().nodes().await?;
    let free = t.store.admin().stats().await?.free_slots;
    let all = u64::from(t.store.facts().slots.unsigned_abs()) + TASKS as u64;
    assert_eq!(nodes.iter().map(|info| info.slots as u64).sum::<u64>() + free, all);
    let mut held_by_all = Vec::new();
    for number in 1..=TASKS as u128 {
        held_by_all.extend(held(&t.heartbeat(number, at(9)).await?));
    }
    let distinct: BTreeSet<i16> = held_by_all.iter().copied().collect();
    assert_eq!(distinct.len(), held_by_all.len(), "a slot has two holders");
    Ok(())
}

/// PBX-011
async fn evicting_and_settling_do_not_mix(t: Fixture) -> Checked {
    for round in 0..10_u128 {
        t.write(many(&format!("r{round}-"), 20), at(0)).await?;
        let rows: Vec<Row> = t.pending().await?;
        t.store
            .register(Register {
                node: node(round + 100),
                label: String::new(),
                reads: ReadScope::Share,
                lease: secs(1),
                now: Some(at(0)),
            })
            .await?;
        let outcomes = rows.iter().map(|row| outcome(row, Change::Done)).collect();
        let fence = Fence::Node(node(round + 100));
        let settle = Settle { fence, outcomes, on_done: OnDone::Keep, repeats: None, now: Some(at(2)) };
        let heir = Register {
            node: node(round + 200),
            label: String::new(),
            reads: ReadScope::Share,
            lease: secs(1),
            now: Some(at(2)),
        };
        let (settled, evicted) = tokio::join!(
            patiently(|| t.store.settle(settle.clone())),
            patiently(|| t.beside.register(heir.clone())),
        );
        evicted?;
        let settled = settled?;
        let left = t.pending().await?.len();
        assert_eq!(left, if settled.held { 0 } else { rows.len() }, "all or nothing");
        assert_eq!(settled.stale.len(), left);
        t.store.leave(node(round + 200)).await?;
        let rest = t.pending().await?.iter().map(|row| outcome(row, Change::Done)).collect();
        t.settle(Fence::Open, rest, at(3)).await?;
    }
    Ok(())
}

/// PBX-011
async fn a_row_is_promoted_once(t: Fixture) -> Checked {
    let rows = (0..60).map(|n| in_slot(event(&format!("e{n}")).due(at(5)))).collect();
    t.write(rows, at(0)).await?;
    let mut lanes = Vec::new();
    for number in 0..TASKS as u128 {
        lanes.push(t.join(number + 1, at(0)).await?.lane);
    }
    let moved = in_parallel(&t, |number, store| {
        let promote = Promote {
            node: node(number as u128 + 1),
            lane: lanes[number],
            order: Order::None,
            rows: 7,
            now: Some(at(9)),
        };
        async move {
            let mut moved = 0;
            for _ in 0..ROUNDS {
                moved += patiently(|| store.promote(promote.clone())).await?.moved;
            }
            Ok(moved)
        }
    });
    assert_eq!(moved.await?.iter().sum::<usize>(), 60);
    let rows = t.pending().await?;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<BTreeSet<_>>().len(), 60);
    Ok(())
}

/// EVT-130
async fn replay_and_purge_never_both_take_a_row(t: Fixture) -> Checked {
    t.write(many("e", 120), at(0)).await?;
    let deaths = t.pending().await?.iter().map(|row| outcome(row, dead())).collect();
    t.settle(Fence::Open, deaths, at(1)).await?;
    let taken = in_parallel(&t, |number, store| async move {
        let (mut replayed, mut purged) = (0, 0);
        for _ in 0..30 {
            let (limit, now) = (4, Some(at(99)));
            if number % 2 == 0 {
                let replay = Replay { select: Select::default(), limit, by: "ann".to_owned(), now };
                replayed += patiently(|| store.admin().replay(replay.clone())).await?;
            } else {
                let purge = Purge { status: PurgeStatus::Dead, older_than: secs(5), limit, now };
                purged += patiently(|| store.admin().purge(purge.clone())).await?;
            }
        }
        Ok((replayed, purged))
    });
    let taken = taken.await?;
    let (replayed, purged) = taken.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert_eq!(replayed + purged, 120, "{replayed} replayed, {purged} purged");
    let rows = t.pending().await?;
    assert_eq!(rows.len() as u64, replayed);
    assert!(rows.iter().all(|row| row.status == Status::New));
    Ok(())
}

/// PBX-024
async fn a_call_that_is_dropped_happens_whole_or_not_at_all(t: Fixture) -> Checked {
    for round in 0..30 {
        let rows = many(&format!("r{round}-"), 3);
        let select =
            Select { ids: rows.iter().map(|row| row.event.id().clone()).collect(), ..Select::default() };
        tokio::select! {
            biased;
            written = t.store.write(Write { rows, now: Some(at(0)) }) => drop(written?),
            () = std::future::ready(()) => {}
        }
        let count = t.beside.admin().count(select).await?;
        assert!(count == 0 || count == 3, "{count} of 3 rows");
    }
    assert_eq!(t.write(plain(&["after"]), at(0)).await?.len(), 1, "nothing was left locked");
    Ok(())
}

/// PBX-016
async fn a_hint_tells_of_rows_written_elsewhere(t: Fixture) -> Checked {
    let Some(mut hints) = t.store.wakeups() else { return Err(Halt::NotApplicable("it gives no hints")) };
    hints.0.mark_unchanged();
    t.beside.write(Write { rows: plain(&["a"]), now: None }).await?;
    let told = tokio::time::timeout(secs(20), hints.0.changed()).await;
    assert!(matches!(told, Ok(Ok(()))), "{told:?}");
    Ok(())
}
