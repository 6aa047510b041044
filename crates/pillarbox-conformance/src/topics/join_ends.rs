//! The end of a join: the wait, the message it ends in, exactly once, whoever settles.

use std::sync::Arc;

use pillarbox::model::{Continuation, Event, FailedSteps, JoinStatus, JoinWait, Payload, Row, StepState};
use pillarbox::port::{
    AnyTable, Change, ClaimFrom, ErrorKind, Fence, JoinAction, JoinChange, JoinChanged, ListJoins, OnDone,
    Purge, PurgeStatus, Settle, StoreError, StoreFuture,
};
use tokio::task::JoinSet;

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, native};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("join_ends";
        Joins:
            the_last_step_enqueues_the_continuation,
            an_open_join_waits_and_counts_no_attempt,
            a_wait_for_a_complete_join_fires_at_once,
            one_failed_step_fails_the_join,
            failed_steps_can_be_ignored,
            an_end_without_a_message_is_an_end,
            a_second_wait_is_refused,
            a_cancelled_join_never_fires,
            an_ended_join_takes_nothing_more,
            steps_may_be_attached_after_the_wait,
            the_continuation_comes_with_the_transaction_that_ends_the_join,
            joins_settled_at_once_by_many_fire_once_each,
            attaching_beside_a_settle_loses_no_step,
            the_steps_of_an_open_join_are_not_purged,
    )
}

fn message(topic: &str) -> Option<Continuation> {
    Some(Continuation { topic: topic.to_owned(), payload: format!(r#"{{"of":"{topic}"}}"#) })
}

fn wait_as(id_of_message: &str, failed_steps: FailedSteps) -> JoinAction {
    JoinAction::Wait(JoinWait {
        failed_steps,
        on_complete: message("completed"),
        on_fail: message("failed"),
        message: id(id_of_message),
        headers: Some(r#"{"kept":"yes"}"#.to_owned()),
    })
}

fn wait() -> JoinAction {
    wait_as("next", FailedSteps::Fail)
}

/// A join `j` of so many steps, with the messages attached.
async fn joined(t: &Fixture, expected: u32, messages: &[&str]) -> Result<(), StoreError> {
    t.start_join("j", expected, at(0)).await?;
    t.enqueue(messages).await?;
    assert_eq!(t.attach("j", messages, at(0)).await?, JoinChanged::Changed);
    Ok(())
}

/// The continuation, if it is in the queue.
async fn next(t: &Fixture) -> Result<Option<String>, StoreError> {
    Ok(t.find("next").await?.map(|record| record.event.as_ref().map_or("", Event::event_type).to_owned()))
}

/// OBX-090, OBX-093
async fn the_last_step_enqueues_the_continuation(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    assert_eq!(t.change_join("j", wait(), at(1)).await?, JoinChanged::Changed);
    t.apply("a", Change::Done, at(2)).await?;
    assert_eq!(next(&t).await?, None);
    t.apply("b", Change::Done, at(3)).await?;
    let join = t.join_shown("j").await?.join;
    assert_eq!((join.status, join.fired, join.updated_at), (JoinStatus::Completed, Some(id("next")), at(3)));
    let row = t.claim(ClaimFrom::Queue, "ann", 9, at(3)).await?.remove(0);
    assert_eq!((row.id.as_str(), row.attempts, row.created_at), ("next", 1, at(3)));
    let event = row.event.as_ref().expect("a whole message");
    assert_eq!((event.event_type(), event.occurred_at()), ("completed", at(3)));
    assert_eq!(event.payload(), &Payload::Json(r#"{"of":"completed"}"#.into()));
    assert_eq!(event.headers().get("kept"), Some("yes"));
    Ok(())
}

/// OBX-091
async fn an_open_join_waits_and_counts_no_attempt(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", Change::Done, at(1)).await?;
    let week = 7 * 24 * 3_600;
    let waiting = t.claim(ClaimFrom::Queue, "ann", 9, at(week)).await?;
    assert_eq!(ids(&waiting), ["b"], "waiting is no message, and nothing that could fail");
    t.settle(Fence::Owner(owner("ann")), vec![outcome(&waiting[0], Change::Done)], at(week)).await?;
    assert_eq!(next(&t).await?.as_deref(), Some("completed"));
    Ok(())
}

/// OBX-090
async fn a_wait_for_a_complete_join_fires_at_once(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    t.apply("a", Change::Done, at(1)).await?;
    t.apply("b", Change::Done, at(1)).await?;
    assert_eq!(t.join_shown("j").await?.join.status, JoinStatus::Pending, "nobody has said what happens");
    assert_eq!(t.change_join("j", wait(), at(9)).await?, JoinChanged::Changed);
    assert_eq!(t.join_shown("j").await?.join.status, JoinStatus::Completed);
    assert_eq!(next(&t).await?.as_deref(), Some("completed"));
    Ok(())
}

/// OBX-092, OBX-094
async fn one_failed_step_fails_the_join(t: Fixture) -> Checked {
    joined(&t, 3, &["a", "b", "c"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", dead(), at(2)).await?;
    t.apply("b", Change::Done, at(2)).await?;
    assert_eq!((t.join_shown("j").await?.join.status, next(&t).await?), (JoinStatus::Pending, None));
    t.apply("c", Change::Done, at(2)).await?;
    assert_eq!(t.join_shown("j").await?.join.status, JoinStatus::Failed);
    assert_eq!(next(&t).await?.as_deref(), Some("failed"));
    Ok(())
}

/// OBX-092
async fn failed_steps_can_be_ignored(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    t.change_join("j", wait_as("next", FailedSteps::Ignore), at(1)).await?;
    t.apply("a", dead(), at(2)).await?;
    t.apply("b", Change::Done, at(2)).await?;
    assert_eq!(t.join_shown("j").await?.join.status, JoinStatus::Completed);
    assert_eq!(next(&t).await?.as_deref(), Some("completed"));
    Ok(())
}

/// OBX-094
async fn an_end_without_a_message_is_an_end(t: Fixture) -> Checked {
    joined(&t, 1, &["a"]).await?;
    let JoinAction::Wait(wait) = wait() else { unreachable!("it is a wait") };
    let silent = JoinAction::Wait(JoinWait { on_fail: None, ..wait });
    t.change_join("j", silent, at(1)).await?;
    t.apply("a", dead(), at(2)).await?;
    let join = t.join_shown("j").await?.join;
    assert_eq!((join.status, join.fired), (JoinStatus::Failed, None));
    assert!(t.claim(ClaimFrom::Queue, "ann", 9, at(9)).await?.is_empty());
    Ok(())
}

async fn a_second_wait_is_refused(t: Fixture) -> Checked {
    joined(&t, 1, &["a"]).await?;
    assert_eq!(t.change_join("none", wait(), at(1)).await?, JoinChanged::NoSuchJoin);
    assert_eq!(t.change_join("j", wait(), at(1)).await?, JoinChanged::Changed);
    let other = wait_as("other", FailedSteps::Ignore);
    assert_eq!(t.change_join("j", other.clone(), at(2)).await?, JoinChanged::AlreadyWaiting);
    t.apply("a", Change::Done, at(3)).await?;
    assert_eq!(t.change_join("j", other, at(4)).await?, JoinChanged::Ended(JoinStatus::Completed));
    assert!(t.find("next").await?.is_some() && t.find("other").await?.is_none());
    Ok(())
}

async fn a_cancelled_join_never_fires(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", Change::Done, at(1)).await?;
    let cancel = || JoinAction::Cancel { by: "ann".to_owned() };
    assert_eq!(t.change_join("j", cancel(), at(2)).await?, JoinChanged::Changed);
    assert_eq!(t.change_join("j", cancel(), at(3)).await?, JoinChanged::Unchanged);
    assert_eq!(t.change_join("none", cancel(), at(3)).await?, JoinChanged::NoSuchJoin);
    t.apply("b", Change::Done, at(4)).await?;
    assert_eq!(t.counts("j").await?, (2, 2, 0), "steps are still counted");
    assert_eq!((t.join_shown("j").await?.join.status, next(&t).await?), (JoinStatus::Cancelled, None));
    let audit = t.store.admin().audit(9).await?;
    let entry = (audit[0].action.as_str(), audit[0].target.as_str(), audit[0].by.as_str(), audit[0].at);
    assert_eq!((audit.len(), entry), (1, ("cancel join", "j", "ann", at(2))));
    Ok(())
}

async fn an_ended_join_takes_nothing_more(t: Fixture) -> Checked {
    joined(&t, 1, &["a"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", Change::Done, at(2)).await?;
    t.enqueue(&["b"]).await?;
    let ended = JoinChanged::Ended(JoinStatus::Completed);
    assert_eq!(t.attach("j", &["b"], at(3)).await?, ended);
    assert_eq!(t.change_join("j", JoinAction::Cancel { by: "ann".to_owned() }, at(3)).await?, ended);
    assert_eq!(t.report("j", "a", StepState::Failed, at(3)).await?, JoinChanged::Unchanged);
    assert_eq!(t.counts("j").await?, (1, 1, 0));
    Ok(())
}

async fn steps_may_be_attached_after_the_wait(t: Fixture) -> Checked {
    joined(&t, 2, &["a"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", Change::Done, at(2)).await?;
    assert_eq!(next(&t).await?, None, "a step is still to come");
    t.enqueue(&["b"]).await?;
    t.apply("b", Change::Done, at(3)).await?;
    assert_eq!(t.attach("j", &["b"], at(4)).await?, JoinChanged::Changed);
    assert_eq!(next(&t).await?.as_deref(), Some("completed"), "attaching was the last that it waited for");
    Ok(())
}

/// OBX-034, PBX-025
async fn the_continuation_comes_with_the_transaction_that_ends_the_join(t: Fixture) -> Checked {
    joined(&t, 1, &["a"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    let row = t.claim(ClaimFrom::Queue, "ann", 1, at(1)).await?.remove(0);
    let settle = |row: &Row| Settle {
        fence: Fence::Owner(owner("ann")),
        outcomes: vec![outcome(row, Change::Done)].into(),
        on_done: OnDone::Keep,
        repeats: None,
        now: Some(at(2)),
    };
    let rolled_back = crate::harness::Ending::Rollback;
    t.work_with(|work| (work.settle, work.ending) = (Some(settle(&row)), rolled_back)).await?;
    assert_eq!((t.counts("j").await?, next(&t).await?), ((1, 0, 0), None));
    t.work_with(|work| work.settle = Some(settle(&row))).await?;
    assert_eq!((t.counts("j").await?, next(&t).await?.as_deref()), ((1, 1, 0), Some("completed")));
    Ok(())
}

const JOINS: usize = 300;
const STEPS: usize = 10;
const WORKERS: usize = 8;
/// After everything that transactions write, by the database's own clock.
const LATER: i64 = 100 * 365 * 24 * 3_600;

/// Tries a call again that lost against another.
async fn again<'a, T>(call: impl Fn() -> StoreFuture<'a, T>) -> Result<T, StoreError> {
    for _ in 0..200 {
        match call().await {
            Err(error) if error.kind() == ErrorKind::Conflict => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
    call().await
}

/// OBX-033, OBX-034, OBX-099, OBX-100: each join fires once, whoever settles its last step.
async fn joins_settled_at_once_by_many_fire_once_each(t: Fixture) -> Checked {
    for number in 0..JOINS {
        let join = format!("j{number}");
        let messages: Vec<String> = (0..STEPS).map(|step| format!("{join}-{step}")).collect();
        let rows = messages.iter().map(|message| in_queue(event(message))).collect();
        let messages = messages.iter().map(|message| id(message)).collect();
        let change = |action| JoinChange { join: join_id(&join), action, now: Some(at(0)) };
        let start = JoinAction::Start { grouping_key: None, expected: STEPS as u32, metadata: None };
        let wait = wait_as(&format!("next-{number}"), FailedSteps::Fail);
        let joins = vec![change(start), change(JoinAction::Attach { messages }), change(wait)];
        t.work_with(|work| (work.rows, work.joins) = (rows, joins)).await?;
    }
    let mut rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(LATER)).await?;
    assert_eq!(rows.len(), JOINS * STEPS);
    // The same shuffle each time: far from the order of the joins.
    rows.sort_by_key(|row| (row.seq.0.wrapping_mul(7_919)) % 3_001);
    let shares: Vec<Vec<Row>> =
        (0..WORKERS).map(|worker| rows.iter().skip(worker).step_by(WORKERS).cloned().collect()).collect();
    let mut workers = JoinSet::new();
    for (worker, share) in shares.into_iter().enumerate() {
        let store = if worker % 2 == 0 { &t.store } else { &t.beside }.clone();
        workers.spawn(settle_in_batches(store, share, worker));
    }
    while let Some(ended) = workers.join_next().await {
        ended.expect("a worker panicked")?;
    }
    let completed = ListJoins { status: Some(JoinStatus::Completed), limit: MANY, ..ListJoins::default() };
    assert_eq!(t.joins().list_joins(completed).await?.len(), JOINS);
    let fired = t.claim(ClaimFrom::Queue, "bob", MANY, at(LATER)).await?;
    assert_eq!(fired.len(), JOINS);
    Ok(())
}

async fn settle_in_batches(store: AnyTable, rows: Vec<Row>, worker: usize) -> Result<(), StoreError> {
    let mut rows = rows.as_slice();
    let mut size = worker + 1;
    while !rows.is_empty() {
        let (batch, rest) = rows.split_at(size.min(rows.len()));
        let outcomes: Arc<[_]> = batch.iter().map(|row| outcome(row, Change::Done)).collect();
        let fence = Fence::Owner(owner("ann"));
        let settle = Settle { fence, outcomes, on_done: OnDone::Keep, repeats: None, now: Some(at(1)) };
        assert_eq!(settle_whole(&*store, settle).await?, NONE);
        rows = rest;
        size = size % 23 + 5;
    }
    Ok(())
}

/// OBX-083, OBX-089: whichever comes first, the step counts.
async fn attaching_beside_a_settle_loses_no_step(t: Fixture) -> Checked {
    const ROUNDS: usize = 60;
    let messages: Vec<String> = (0..ROUNDS).map(|round| format!("m{round}")).collect();
    t.start_join("j", ROUNDS as u32, at(0)).await?;
    t.change_join("j", wait(), at(0)).await?;
    t.enqueue(&messages.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", MANY, at(0)).await?;
    for (row, message) in rows.iter().zip(&messages) {
        let fence = Fence::Owner(owner("ann"));
        let outcomes = vec![outcome(row, Change::Done)].into();
        let settle = Settle { fence, outcomes, on_done: OnDone::Keep, repeats: None, now: Some(at(1)) };
        let settle = settle_whole(&*t.store, settle);
        let attach = again(|| {
            let joins = native(&t.beside).joins().expect("joins");
            let action = JoinAction::Attach { messages: vec![id(message)] };
            joins.change_join(JoinChange { join: join_id("j"), action, now: Some(at(1)) })
        });
        let (settled, attached) = tokio::join!(settle, attach);
        assert_eq!((settled?, attached?), (NONE.to_vec(), JoinChanged::Changed));
    }
    assert_eq!(t.counts("j").await?, (ROUNDS as u32, ROUNDS as u32, 0));
    assert_eq!(next(&t).await?.as_deref(), Some("completed"));
    Ok(())
}

/// PBX-073: without its steps a join never ends. Once it has ended, they are rows like others.
async fn the_steps_of_an_open_join_are_not_purged(t: Fixture) -> Checked {
    joined(&t, 2, &["a", "b"]).await?;
    t.enqueue(&["alone"]).await?;
    t.change_join("j", wait(), at(1)).await?;
    t.apply("a", Change::Done, at(2)).await?;
    let purge = |status, limit| Purge { status, older_than: secs(5), limit, now: Some(at(99)) };
    assert_eq!(t.store.admin().purge(purge(PurgeStatus::Any, 1)).await?, 1, "what stays takes no place");
    assert!(t.find("alone").await?.is_none());
    for status in [PurgeStatus::Any, PurgeStatus::Done, PurgeStatus::Dead] {
        assert_eq!(t.store.admin().purge(purge(status, 9)).await?, 0);
    }
    t.apply("b", Change::Done, at(98)).await?;
    assert_eq!(next(&t).await?.as_deref(), Some("completed"));
    assert_eq!(t.store.admin().purge(purge(PurgeStatus::Any, 9)).await?, 2);
    assert!(t.find("next").await?.is_some(), "it was written just now");
    Ok(())
}
