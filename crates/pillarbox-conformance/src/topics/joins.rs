//! Joins: starting, attaching, reporting, and what counts as a step that has ended.

use pillarbox::model::{JoinStatus, Status, StepState};
use pillarbox::port::{
    Cancel, Change, ClaimFrom, Fence, JoinAction, JoinChange, JoinChanged, ListJoins, OnDone, Purge,
    PurgeStatus, Settle, StoreError,
};

use crate::case::{Case, Checked, cases};
use crate::harness::{Ending, Fixture};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("joins";
        Joins:
            a_join_starts_with_nothing,
            messages_are_attached_once,
            attaching_again_after_the_end_is_harmless,
            attaching_demands_a_join_and_messages_of_the_queue,
            a_join_has_no_more_members_than_steps,
            messages_are_attached_all_or_none,
            done_and_dead_messages_count,
            a_message_that_ended_twice_counts_once,
            a_message_counts_in_each_of_its_joins,
            a_message_that_ended_before_it_was_attached_counts,
            steps_are_reported_once,
            a_reported_step_is_final,
            a_message_taken_back_has_failed,
            members_stay_when_done_rows_are_deleted,
            joins_are_found_by_their_grouping_key,
            ended_joins_are_purged_with_their_members,
            a_join_is_built_in_a_transaction,
            what_is_rolled_back_was_never_joined,
    )
}

/// OBX-080, OBX-081, OBX-082
async fn a_join_starts_with_nothing(t: Fixture) -> Checked {
    let start = JoinAction::Start {
        grouping_key: Some("customer-7".to_owned()),
        expected: 3,
        metadata: Some(r#"{"phase":"extract"}"#.to_owned()),
    };
    assert_eq!(t.change_join("j", start.clone(), at(5)).await?, JoinChanged::Changed);
    let shown = t.join_shown("j").await?;
    let join = shown.join;
    assert_eq!((join.expected, join.attached, join.completed, join.failed), (3, 0, 0, 0));
    assert_eq!((join.status, join.wait, join.fired), (JoinStatus::Pending, None, None));
    assert_eq!(
        (join.grouping_key.as_deref(), join.metadata.as_deref()),
        (Some("customer-7"), Some(r#"{"phase":"extract"}"#))
    );
    assert_eq!((join.created_at, join.updated_at, shown.members.len()), (at(5), at(5), 0));
    assert_eq!(t.change_join("j", start, at(6)).await?, JoinChanged::Unchanged, "it is there");
    assert!(t.joins().show_join(join_id("other"), 9).await?.is_none());
    Ok(())
}

/// OBX-083, OBX-084
async fn messages_are_attached_once(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a", "b"]).await?;
    assert_eq!(t.attach("j", &["a"], at(1)).await?, JoinChanged::Changed);
    assert_eq!(t.attach("j", &["a"], at(2)).await?, JoinChanged::Unchanged);
    assert_eq!(t.attach("j", &["a", "b"], at(3)).await?, JoinChanged::Changed);
    let shown = t.join_shown("j").await?;
    assert_eq!(shown.join.attached, 2);
    let members: Vec<_> =
        shown.members.iter().map(|m| (m.message.as_str(), m.state, m.attached_at)).collect();
    assert_eq!(members, [("a", StepState::Pending, at(1)), ("b", StepState::Pending, at(3))]);
    Ok(())
}

/// OBX-084: whoever lost the answer may ask again.
async fn attaching_again_after_the_end_is_harmless(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a", "b", "late"]).await?;
    t.attach("j", &["a", "b"], at(1)).await?;
    let ended = JoinChanged::Ended(JoinStatus::Cancelled);
    t.change_join("j", JoinAction::Cancel { by: "ann".to_owned() }, at(2)).await?;
    let before = t.join_shown("j").await?;
    assert_eq!(t.attach("j", &["a"], at(3)).await?, JoinChanged::Unchanged);
    assert_eq!(t.attach("j", &["b", "a", "b"], at(3)).await?, JoinChanged::Unchanged);
    for refused in [&["late"][..], &["a", "late"], &["a", "gone"]] {
        assert_eq!(t.attach("j", refused, at(3)).await?, ended, "{refused:?}");
    }
    assert_eq!(t.join_shown("j").await?, before);
    Ok(())
}

/// OBX-083
async fn attaching_demands_a_join_and_messages_of_the_queue(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a"]).await?;
    t.write(plain(&["event"]), at(0)).await?;
    assert_eq!(t.attach("none", &["a"], at(1)).await?, JoinChanged::NoSuchJoin);
    for absent in ["event", "nothing"] {
        assert_eq!(t.attach("j", &[absent], at(1)).await?, JoinChanged::NoSuchMessage(id(absent)));
    }
    assert_eq!(t.join_shown("j").await?.join.attached, 0);
    Ok(())
}

async fn a_join_has_no_more_members_than_steps(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a", "b", "c"]).await?;
    assert_eq!(t.attach("j", &["a", "b", "c"], at(1)).await?, JoinChanged::Full { expected: 2 });
    assert_eq!(t.attach("j", &["a", "b"], at(1)).await?, JoinChanged::Changed);
    assert_eq!(t.attach("j", &["c"], at(1)).await?, JoinChanged::Full { expected: 2 });
    assert_eq!(t.attach("j", &["b"], at(1)).await?, JoinChanged::Unchanged);
    assert_eq!(t.counts("j").await?, (2, 0, 0));
    Ok(())
}

/// OBX-097
async fn messages_are_attached_all_or_none(t: Fixture) -> Checked {
    t.start_join("j", 5, at(0)).await?;
    t.enqueue(&["a", "b"]).await?;
    assert_eq!(t.attach("j", &["a", "gone", "b"], at(1)).await?, JoinChanged::NoSuchMessage(id("gone")));
    assert_eq!(t.counts("j").await?, (0, 0, 0));
    assert!(t.join_shown("j").await?.members.is_empty());
    Ok(())
}

/// OBX-033, OBX-034, OBX-046, OBX-047, OBX-089
async fn done_and_dead_messages_count(t: Fixture) -> Checked {
    t.start_join("j", 4, at(0)).await?;
    t.enqueue(&["a", "b", "c", "d"]).await?;
    t.attach("j", &["a", "b", "c", "d"], at(0)).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", 9, at(0)).await?;
    let changes = [Change::Done, Change::Done, dead(), retry(secs(1))];
    let outcomes = rows.iter().zip(changes).map(|(row, change)| outcome(row, change)).collect();
    assert_eq!(t.settle(Fence::Owner(owner("ann")), outcomes, at(7)).await?.stale, NONE);
    assert_eq!(t.counts("j").await?, (4, 2, 1), "two of one call are two");
    let shown = t.join_shown("j").await?;
    let states: Vec<StepState> = shown.members.iter().map(|member| member.state).collect();
    assert_eq!(states, [StepState::Completed, StepState::Completed, StepState::Failed, StepState::Pending]);
    assert_eq!(
        (shown.join.updated_at, shown.join.status),
        (at(7), JoinStatus::Pending),
        "nobody waits for it"
    );
    Ok(())
}

/// OBX-086
async fn a_message_that_ended_twice_counts_once(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a", "b"]).await?;
    t.attach("j", &["a", "b"], at(0)).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", 9, at(0)).await?;
    for stale in [NONE.to_vec(), vec![0]] {
        let ack = vec![outcome(&rows[0], Change::Done)];
        assert_eq!(t.settle(Fence::Owner(owner("ann")), ack, at(1)).await?.stale, stale);
    }
    t.apply("b", dead(), at(1)).await?;
    assert_eq!(t.replay(only(&["b"]), at(2)).await?, 1);
    t.apply("b", Change::Done, at(3)).await?;
    assert_eq!(t.counts("j").await?, (2, 1, 1), "what has failed once stays so in its join");
    Ok(())
}

/// OBX-096
async fn a_message_counts_in_each_of_its_joins(t: Fixture) -> Checked {
    t.enqueue(&["a"]).await?;
    for join in ["j1", "j2", "j3"] {
        t.start_join(join, 2, at(0)).await?;
        t.attach(join, &["a"], at(0)).await?;
    }
    t.apply("a", Change::Done, at(1)).await?;
    for join in ["j1", "j2", "j3"] {
        assert_eq!(t.counts(join).await?, (1, 1, 0));
    }
    Ok(())
}

/// OBX-083, OBX-089
async fn a_message_that_ended_before_it_was_attached_counts(t: Fixture) -> Checked {
    t.start_join("j", 3, at(0)).await?;
    t.enqueue(&["done", "dead", "open"]).await?;
    t.apply("done", Change::Done, at(1)).await?;
    t.apply("dead", dead(), at(1)).await?;
    assert_eq!(t.attach("j", &["done", "dead", "open"], at(2)).await?, JoinChanged::Changed);
    assert_eq!(t.counts("j").await?, (3, 1, 1));
    Ok(())
}

/// OBX-085, OBX-086, OBX-087, OBX-088
async fn steps_are_reported_once(t: Fixture) -> Checked {
    t.start_join("j", 3, at(0)).await?;
    t.enqueue(&["a", "b", "c"]).await?;
    t.attach("j", &["a", "b"], at(0)).await?;
    for (expected, counts) in [(JoinChanged::Changed, (2, 1, 0)), (JoinChanged::Unchanged, (2, 1, 0))] {
        assert_eq!(t.report("j", "a", StepState::Completed, at(1)).await?, expected);
        assert_eq!(t.counts("j").await?, counts);
    }
    for (expected, counts) in [(JoinChanged::Changed, (2, 1, 1)), (JoinChanged::Unchanged, (2, 1, 1))] {
        assert_eq!(t.report("j", "b", StepState::Failed, at(1)).await?, expected);
        assert_eq!(t.counts("j").await?, counts);
    }
    assert_eq!(t.report("j", "c", StepState::Completed, at(1)).await?, JoinChanged::NotAMember);
    assert_eq!(t.report("x", "a", StepState::Completed, at(1)).await?, JoinChanged::NoSuchJoin);
    assert_eq!(t.record("a").await?.status, Status::New, "the message itself is as it was");
    Ok(())
}

/// OBX-086, OBX-088
async fn a_reported_step_is_final(t: Fixture) -> Checked {
    t.start_join("j", 1, at(0)).await?;
    t.enqueue(&["a"]).await?;
    t.attach("j", &["a"], at(0)).await?;
    assert_eq!(t.report("j", "a", StepState::Failed, at(1)).await?, JoinChanged::Changed);
    assert_eq!(t.report("j", "a", StepState::Completed, at(1)).await?, JoinChanged::Unchanged);
    t.apply("a", Change::Done, at(2)).await?;
    assert_eq!(t.counts("j").await?, (1, 0, 1));
    Ok(())
}

/// PBX-027
async fn a_message_taken_back_has_failed(t: Fixture) -> Checked {
    t.start_join("j", 3, at(0)).await?;
    t.enqueue(&["a", "b", "c"]).await?;
    t.attach("j", &["a", "b", "c"], at(0)).await?;
    let cancel = |event: &str| Cancel { ids: vec![id(event)], by: "ann".to_owned(), now: Some(at(1)) };
    assert_eq!(t.store.admin().cancel(cancel("a")).await?, [id("a")]);
    t.work_with(|work| work.cancel = Some(cancel("b"))).await?;
    assert_eq!(t.counts("j").await?, (3, 0, 2), "or the join would never end");
    Ok(())
}

/// OBX-089
async fn members_stay_when_done_rows_are_deleted(t: Fixture) -> Checked {
    t.start_join("j", 1, at(0)).await?;
    t.enqueue(&["a", "b"]).await?;
    t.attach("j", &["a"], at(0)).await?;
    let rows = t.claim(ClaimFrom::Queue, "ann", 9, at(0)).await?;
    let outcomes = rows.iter().map(|row| outcome(row, Change::Done)).collect::<Vec<_>>().into();
    let fence = Fence::Owner(owner("ann"));
    let settle = Settle { fence, outcomes, on_done: OnDone::Delete, repeats: None, now: Some(at(1)) };
    assert_eq!(t.store.settle(settle).await?.stale, NONE);
    assert_eq!(t.record("a").await?.status, Status::Done, "others may still ask for it");
    assert!(t.find("b").await?.is_none());
    assert_eq!(t.counts("j").await?, (1, 1, 0));
    Ok(())
}

async fn list(
    t: &Fixture,
    key: Option<&str>,
    status: Option<JoinStatus>,
    limit: usize,
) -> Result<Vec<String>, StoreError> {
    let request = ListJoins { grouping_key: key.map(str::to_owned), status, limit };
    let joins = t.joins().list_joins(request).await?;
    Ok(joins.into_iter().map(|join| join.id.to_string()).collect())
}

/// OBX-095
async fn joins_are_found_by_their_grouping_key(t: Fixture) -> Checked {
    for (join, key, when) in
        [("j1", Some("k"), 1), ("j2", None, 2), ("j3", Some("k"), 3), ("j4", Some("K"), 4)]
    {
        let grouping_key = key.map(str::to_owned);
        let start = JoinAction::Start { grouping_key, expected: 1, metadata: None };
        t.change_join(join, start, at(when)).await?;
    }
    t.change_join("j1", JoinAction::Cancel { by: "ann".to_owned() }, at(5)).await?;
    assert_eq!(list(&t, None, None, 9).await?, ["j4", "j3", "j2", "j1"]);
    assert_eq!(list(&t, Some("k"), None, 9).await?, ["j3", "j1"], "keys compare by bytes");
    assert_eq!(list(&t, Some("k"), Some(JoinStatus::Pending), 9).await?, ["j3"]);
    assert_eq!(list(&t, None, Some(JoinStatus::Cancelled), 9).await?, ["j1"]);
    assert_eq!(list(&t, None, None, 2).await?, ["j4", "j3"]);
    Ok(())
}

/// PBX-073
async fn ended_joins_are_purged_with_their_members(t: Fixture) -> Checked {
    t.enqueue(&["a", "b"]).await?;
    for (join, member) in [("old", "a"), ("open", "b"), ("recent", "a")] {
        t.start_join(join, 2, at(0)).await?;
        t.attach(join, &[member], at(0)).await?;
    }
    t.apply("a", Change::Done, at(5)).await?;
    t.apply("b", Change::Done, at(5)).await?;
    t.change_join("old", JoinAction::Cancel { by: "ann".to_owned() }, at(10)).await?;
    t.change_join("recent", JoinAction::Cancel { by: "ann".to_owned() }, at(90)).await?;
    let purge = Purge { status: PurgeStatus::Done, older_than: secs(50), limit: MANY, now: Some(at(100)) };
    assert_eq!(t.store.admin().purge(purge).await?, 1, "rows are counted");
    assert!(t.find("a").await?.is_none());
    assert!(t.find("b").await?.is_some(), "a step of an open join stays");
    assert!(t.joins().show_join(join_id("old"), 9).await?.is_none());
    assert_eq!(t.join_shown("recent").await?.join.status, JoinStatus::Cancelled);
    assert_eq!(t.counts("open").await?, (1, 1, 0));
    assert_eq!(t.join_shown("open").await?.members.len(), 1);
    Ok(())
}

/// OBX-003, OBX-097
async fn a_join_is_built_in_a_transaction(t: Fixture) -> Checked {
    let rows = vec![in_queue(event("a")), in_queue(event("b"))];
    let start = JoinAction::Start { grouping_key: None, expected: 2, metadata: None };
    let attach = JoinAction::Attach { messages: vec![id("a"), id("b")] };
    let change = |action| JoinChange { join: join_id("j"), action, now: Some(at(1)) };
    let joins = vec![change(start), change(attach.clone()), change(attach)];
    let worked = t.work_with(|work| (work.rows, work.joins) = (rows, joins)).await?;
    assert_eq!(worked.joins, [JoinChanged::Changed, JoinChanged::Changed, JoinChanged::Unchanged]);
    t.apply("a", Change::Done, at(2)).await?;
    assert_eq!(t.counts("j").await?, (2, 1, 0));
    Ok(())
}

/// OBX-003, PBX-024
async fn what_is_rolled_back_was_never_joined(t: Fixture) -> Checked {
    t.start_join("j", 2, at(0)).await?;
    t.enqueue(&["a"]).await?;
    let messages = vec![id("a"), id("b")];
    let change = JoinChange { join: join_id("j"), action: JoinAction::Attach { messages }, now: Some(at(1)) };
    let worked = t
        .work_with(|work| {
            work.rows = vec![in_queue(event("b"))];
            work.joins = vec![change];
            work.ending = Ending::Rollback;
        })
        .await?;
    assert_eq!(worked.joins, [JoinChanged::Changed]);
    t.apply("a", Change::Done, at(2)).await?;
    assert_eq!(t.counts("j").await?, (0, 0, 0));
    Ok(())
}
