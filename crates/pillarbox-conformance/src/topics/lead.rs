//! Leading: one node takes the first rows of group after group, and gives back what others left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{Event, EventId, GroupKey, Row, Status};
use pillarbox::port::{
    Cancel, Change, Counts, Fence, GroupAction, Order, Recover, Settled, Take, Taken, Wait,
};

use crate::case::{Case, Checked, Halt, cases};
use crate::harness::{Ending, Fixture, ItemRow, Planted, items};
use crate::item_kit::*;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("lead";
    Items:
        rows_without_a_group_come_first_then_groups_in_order,
        no_more_is_taken_than_asked_for,
        pages_visit_every_group_once,
        groups_that_are_left_out_are_passed_over,
        held_groups_are_left_out_by_the_store,
        a_take_marks_rows_as_processing_at_its_time,
        odd_rows_are_taken_and_unknown_statuses_are_not,
        only_the_leader_takes,
        an_evicted_node_takes_recovers_and_settles_nothing,
        a_node_that_gave_leadership_up_takes_nothing,
        a_leader_settles_by_its_claims_alone,
        an_attempt_that_is_taken_back_counts_nothing,
        what_was_taken_too_long_ago_is_recovered,
        what_the_leader_has_in_hand_is_not_recovered,
        tokens_grow_over_takes_and_recoveries_within_one_moment,
        takes_side_by_side_never_share_a_row,
        a_heartbeat_tells_whether_rows_wait;
    ItemTransactions:
        a_row_that_others_have_locked_is_not_overtaken,
        rows_without_a_group_overtake_a_locked_one_only_where_each_goes_for_itself;
    )
}

/// Writes items of groups, in this order at one time; node 1 leads.
async fn led(t: &Fixture, items: &[(usize, &str)]) -> Checked {
    let rows = items.iter().map(|(number, group)| row(item(*number).group(*group))).collect();
    t.write(rows, at(0)).await?;
    t.join(1, at(0)).await?;
    Ok(())
}

/// After this many attempts, one was not made.
fn back(attempts: u32) -> Change {
    let (delay, error, counts) = (secs(9), "down".to_owned(), Counts::NotMade(attempts));
    Change::Retry { delay, error, counts, wait: Wait::InPlace }
}

fn every_change() -> [Change; 6] {
    let dead = Change::Dead { error: "never".to_owned(), counts: Counts::Made(1), blocks: Some(group("a")) };
    let (attempt, release) = (Change::Attempt { attempts: 2 }, Change::Release { attempts: 0 });
    [Change::Done, retry(secs(9)), dead, Change::Delay, attempt, release]
}

/// RLY-010, RLY-011, RLY-030
async fn rows_without_a_group_come_first_then_groups_in_order(t: Fixture) -> Checked {
    t.write(vec![row(item(7).group("b")), row(item(5).group("a"))], at(3)).await?;
    t.write(vec![row(item(9).group("a")), row(item(8).group("b")), row(item(6))], at(2)).await?;
    t.write(vec![row(item(3).group("a")), row(item(4).group("a")), row(item(2))], at(4)).await?;
    t.join(1, at(5)).await?;
    let rows = taken(&t, take(1, 9)).await?;
    assert_eq!(numbers(&rows), [6, 2, 9, 5, 3, 4, 8, 7]);
    assert_eq!((&rows[0].group, &rows[2].group), (&None, &Some(group("a"))));
    assert!(taken(&t, take(1, 9)).await?.is_empty(), "each row once");
    Ok(())
}

/// RLY-011, PBX-013
async fn no_more_is_taken_than_asked_for(t: Fixture) -> Checked {
    t.write((20..25).map(|number| row(item(number))).collect(), at(0)).await?;
    led(&t, &[(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "c"), (6, "c"), (7, "d")]).await?;
    let none = Take { rows: 0, ..take(1, 1) };
    assert!(taken(&t, none).await?.is_empty());
    let none = Take { each: 0, ungrouped: 0, ..take(1, 1) };
    assert!(taken(&t, none).await?.is_empty());
    let some = Take { rows: 6, each: 2, ungrouped: 1, ..take(1, 1) };
    assert_eq!(numbers(&taken(&t, some).await?), [20, 1, 2, 4, 5, 6]);
    for number in [3, 7, 21] {
        assert_eq!(look(&t, number).await?.status, "PENDING", "{number} is left for others");
    }
    let few = Take { rows: 2, ..take(1, 2) };
    assert_eq!(numbers(&taken(&t, few).await?), [21, 22], "rows without a group count too");
    let grouped = Take { ungrouped: 0, rows: 1, ..take(1, 2) };
    assert_eq!(numbers(&taken(&t, grouped).await?), [3]);
    Ok(())
}

/// RLY-011, PBX-011
async fn pages_visit_every_group_once(t: Fixture) -> Checked {
    const GROUPS: usize = 40;
    let name = |number: usize| format!("g{:02}", number % GROUPS);
    let rows = (0..GROUPS * 5).map(|number| row(item(number).group(name(number))));
    t.write(rows.chain([row(item(900))]).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    let (mut after, mut visits, mut ungrouped) = (None, BTreeMap::new(), 0);
    for _ in 0..GROUPS {
        let request = Take { after: after.clone(), rows: 12, each: 3, ..take(1, 1) };
        let rows = taken(&t, request).await?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.group);
        for row in rows {
            match row.group {
                None => ungrouped += 1,
                Some(group) => visits.entry(group).or_insert_with(Vec::new).push(row.id),
            }
        }
    }
    assert_eq!((visits.len(), ungrouped), (GROUPS, 1));
    // A page may end within a group, which then is visited by its next rows in the next round.
    assert!(visits.values().all(|ids| (1..=3).contains(&ids.len()) && ids.is_sorted()), "{visits:?}");
    let rest = taken(&t, take(1, 2)).await?;
    let there: usize = visits.values().map(Vec::len).sum();
    assert_eq!(rest.len() + there, GROUPS * 5);
    Ok(())
}

/// RLY-011, RLY-012
async fn groups_that_are_left_out_are_passed_over(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "b"), (3, "b"), (4, "c"), (5, "d")]).await?;
    t.write(vec![row(item(6))], at(0)).await?;
    let except: Vec<GroupKey> = ["a", "c", "not there"].map(group).to_vec();
    let request = Take { except, rows: 3, each: 1, ..take(1, 1) };
    assert_eq!(numbers(&taken(&t, request).await?), [6, 2, 5]);
    assert_eq!(look(&t, 1).await?.status, "PENDING");
    let after = Take { after: Some(group("a")), except: vec![group("c")], ..take(1, 1) };
    assert_eq!(numbers(&taken(&t, after).await?), [3]);
    assert_eq!(numbers(&taken(&t, take(1, 1)).await?), [1, 4]);
    Ok(())
}

/// PBX-010, PBX-100
async fn held_groups_are_left_out_by_the_store(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "b"), (3, "b"), (4, "c'd"), (5, "d"), (6, "e")]).await?;
    for key in ["a", "c'd", "e", "not there"] {
        t.change_group(key, GroupAction::Pause, at(1)).await?;
    }
    let except = vec![group("d")];
    assert_eq!(numbers(&taken(&t, Take { except, ..take(1, 1) }).await?), [2, 3]);
    t.change_group("c'd", GroupAction::Resume, at(2)).await?;
    assert_eq!(numbers(&taken(&t, take(1, 2)).await?), [4, 5]);
    Ok(())
}

/// RLY-006, RLY-010, RLY-012
async fn a_take_marks_rows_as_processing_at_its_time(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    let row = taken(&t, take(1, 5)).await?.remove(0);
    assert_eq!((row.token.0, row.attempts), (at(5).as_microsecond(), 1));
    assert_eq!((row.status, row.created_at, row.available_at), (Status::New, at(0), at(0)));
    assert_eq!(row.event.as_ref().map(Event::event_type), Ok("EVENT"));
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("PROCESSING", Some(at(5))));
    assert_eq!((stored.retry_count, stored.error_message), (0, None));
    assert!(take_all(&t, 6).await?.is_empty(), "nobody else gets it");
    Ok(())
}

/// RLY-005, RLY-006
async fn odd_rows_are_taken_and_unknown_statuses_are_not(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let plain = |number: usize| ItemRow {
        id: tsid(number),
        item_type: "EVENT".to_owned(),
        message_group: Some("a".to_owned()),
        payload: Some("not json".to_owned()),
        status: "PENDING".to_owned(),
        retry_count: 0,
        created_at: at(number as i64),
        processed_at: None,
        error_message: None,
    };
    t.foreign.plant(ItemRow { item_type: "INVOICE".to_owned(), ..plain(1) }).await?;
    t.foreign.plant(ItemRow { status: "HELD".to_owned(), ..plain(2) }).await?;
    let missing = t.foreign.plant(ItemRow { payload: None, ..plain(3) }).await?;
    t.foreign.plant(plain(4)).await?;
    t.foreign.plant(ItemRow { message_group: Some(String::new()), ..plain(5) }).await?;
    let mut expected = vec![(5, true), (1, false), (4, true)];
    if missing == Planted::Taken {
        expected.insert(2, (3, false));
    }
    let rows = taken(&t, take(1, 9)).await?;
    let told: Vec<_> = numbers(&rows).into_iter().zip(rows.iter().map(|row| row.event.is_ok())).collect();
    assert_eq!(told, expected);
    assert_eq!(look(&t, 2).await?.status, "HELD");
    Ok(())
}

/// RLY-010, RLY-021, PBX-011
async fn only_the_leader_takes(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    t.join(2, at(1)).await?;
    let beside = items(&t.beside);
    for stranger in [2, 3] {
        let answer = beside.take(take(stranger, 2)).await?;
        assert!(!answer.leads && answer.rows.is_empty(), "node {stranger} does not lead");
    }
    assert_eq!(look(&t, 1).await?.status, "PENDING");
    assert_eq!(taken(&t, take(1, 2)).await?.len(), 1);
    assert_eq!(beside.recover(recover(2, 0, 9)).await?, 0);
    assert_eq!(look(&t, 1).await?.status, "PROCESSING");
    Ok(())
}

/// RLY-021, PBX-011, RLY-014
async fn an_evicted_node_takes_recovers_and_settles_nothing(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "b")]).await?;
    let rows = taken(&t, Take { rows: 1, ..take(1, 1) }).await?;
    t.join(2, at(20)).await?;
    assert!(held(&t.heartbeat(2, at(40)).await?).contains(&0), "the first one was evicted");
    let answer = t.items().take(take(1, 41)).await?;
    assert!(!answer.leads && answer.rows.is_empty());
    assert_eq!(t.items().recover(recover(1, 0, 41)).await?, 0);
    for change in every_change() {
        let settled = t.settle(Fence::Node(node(1)), vec![outcome(&rows[0], change)], at(41)).await?;
        assert_eq!(settled, Settled::lost(1));
    }
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count), ("PROCESSING", 0));
    assert_eq!(look(&t, 2).await?.status, "PENDING");
    assert_eq!(t.items().recover(recover(2, 0, 41)).await?, 1);
    assert_eq!(numbers(&taken(&t, take(2, 41)).await?), [1, 2], "its heir goes on");
    Ok(())
}

/// RLY-021, PBX-011
async fn a_node_that_gave_leadership_up_takes_nothing(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    t.release(1, &[0], at(1)).await?;
    let answer = t.items().take(take(1, 1)).await?;
    assert!(!answer.leads && answer.rows.is_empty(), "it is there, and does not lead");
    t.heartbeat(1, at(2)).await?;
    t.store.leave(node(1)).await?;
    assert!(!t.items().take(take(1, 2)).await?.leads);
    assert_eq!(look(&t, 1).await?.status, "PENDING");
    Ok(())
}

/// PBX-011, RLY-021
async fn a_leader_settles_by_its_claims_alone(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "a"), (3, "a"), (4, "a"), (5, "a"), (6, "a")]).await?;
    let old = taken(&t, take(1, 1)).await?;
    assert_eq!(t.items().recover(recover(1, 0, 2)).await?, 6);
    let new = taken(&t, take(1, 3)).await?;
    let batch =
        |rows: &[Row]| rows.iter().zip(every_change()).map(|(row, change)| outcome(row, change)).collect();
    let by = || Fence::Node(node(1));
    let stale = t.settle(by(), batch(&old), at(4)).await?;
    assert_eq!(stale, Settled::all_but((0..6).collect()));
    assert!(t.held_group("a").await?.is_none(), "a stale end blocks no group");
    assert_eq!(t.settle(by(), batch(&new), at(4)).await?, Settled::all_but(vec![]));
    let mut found = Vec::new();
    for number in 1..=6 {
        let stored = look(&t, number).await?;
        found.push((stored.status, stored.retry_count));
    }
    let expected =
        [("COMPLETED", 0), ("PENDING", 1), ("FAILED", 0), ("PENDING", 0), ("PROCESSING", 1), ("PENDING", 0)];
    assert_eq!(found, expected.map(|(status, retries)| (status.to_owned(), retries)));
    assert!(t.held_group("a").await?.is_some());
    Ok(())
}

/// PBX-013, RLY-013
async fn an_attempt_that_is_taken_back_counts_nothing(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    let release = Change::Release { attempts: 1 };
    for (change, retries) in [(back(0), 0), (retry(secs(9)), 1), (back(1), 1), (release, 1), (back(1), 1)] {
        let row = taken(&t, take(1, 1)).await?.remove(0);
        let settled = t.settle(Fence::Node(node(1)), vec![outcome(&row, change)], at(1)).await?;
        assert!(settled.stale.is_empty());
        let stored = look(&t, 1).await?;
        assert_eq!((stored.status.as_str(), stored.retry_count), ("PENDING", retries));
        assert_eq!(t.record(&tsid(1)).await?.attempts, retries as u32);
    }
    assert_eq!(look(&t, 1).await?.error_message.as_deref(), Some("down"), "why is kept all the same");
    Ok(())
}

/// RLY-014
async fn what_was_taken_too_long_ago_is_recovered(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "b"), (3, "c"), (4, "d")]).await?;
    t.join(2, at(1)).await?;
    taken(&t, Take { rows: 3, ..take(1, 1) }).await?;
    let done = t.outcome(&tsid(3), Change::Done).await?;
    t.settle(Fence::Node(node(1)), vec![done], at(2)).await?;
    taken(&t, take(1, 10)).await?;
    let lead = t.items();
    assert_eq!(lead.recover(recover(1, 20, 21)).await?, 0, "not longer ago than that");
    assert_eq!(lead.recover(Recover { rows: 1, ..recover(1, 20, 22) }).await?, 1);
    assert_eq!(lead.recover(recover(1, 20, 22)).await?, 1);
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.processed_at), ("PENDING", Some(at(1))), "the token stays");
    assert_eq!((stored.retry_count, look(&t, 3).await?.status.as_str()), (0, "COMPLETED"));
    assert_eq!(lead.recover(recover(1, 20, 22)).await?, 0, "each once");
    assert_eq!(lead.recover(recover(1, 0, 10)).await?, 1, "zero: all, whenever they were taken");
    assert_eq!(numbers(&take_all(&t, 23).await?), [1, 2, 4], "they are there to be taken again");
    assert_eq!(lead.recover(recover(1, 0, 23)).await?, 3);
    let stuck = ItemRow { status: "PROCESSING".to_owned(), processed_at: None, ..look(&t, 3).await? };
    t.foreign.plant(ItemRow { id: tsid(5), ..stuck }).await?;
    assert_eq!(lead.recover(recover(1, 20, 19)).await?, 0);
    assert_eq!(
        lead.recover(recover(1, 20, 21)).await?,
        1,
        "one without a time counts from when it was written"
    );
    Ok(())
}

/// RLY-014, PBX-013
async fn what_the_leader_has_in_hand_is_not_recovered(t: Fixture) -> Checked {
    led(&t, &[(1, "a"), (2, "b"), (3, "c")]).await?;
    taken(&t, take(1, 1)).await?;
    let except: Vec<EventId> = [1, 3].map(|number| id(&tsid(number))).to_vec();
    for older_than in [0, 5] {
        let request = Recover { except: except.clone(), ..recover(1, older_than, 99) };
        let there = t.items().recover(request).await?;
        assert_eq!(there, u64::from(older_than == 0));
    }
    for (number, status) in [(1, "PROCESSING"), (2, "PENDING"), (3, "PROCESSING")] {
        assert_eq!(look(&t, number).await?.status, status);
    }
    Ok(())
}

/// PBX-011, RLY-010
async fn tokens_grow_over_takes_and_recoveries_within_one_moment(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    let mut last = taken(&t, take(1, 5)).await?.remove(0).token;
    for _ in 0..3 {
        // A clock that stands still, or a column of whole seconds.
        assert_eq!(t.items().recover(recover(1, 0, 5)).await?, 1);
        let next = taken(&t, take(1, 5)).await?.remove(0).token;
        assert!(next > last, "{next:?} after {last:?}");
        last = next;
    }
    Ok(())
}

/// RLY-010, RLY-012
async fn takes_side_by_side_never_share_a_row(t: Fixture) -> Checked {
    const ITEMS: usize = 240;
    t.write((0..ITEMS).map(|n| row(item(n).group(format!("g{}", n % 7)))).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    let mut takers = tokio::task::JoinSet::new();
    for number in 0..6 {
        let store = Arc::clone(items(if number % 2 == 0 { &t.store } else { &t.beside }));
        takers.spawn(async move {
            until_dry(|| {
                let store = Arc::clone(&store);
                async move {
                    let request = Take { rows: 7, each: 2, now: None, ..take(1, 0) };
                    store.take(request).await.map(|Taken { rows, .. }| rows)
                }
            })
            .await
        });
    }
    each_once(takers, ITEMS).await
}

/// PBX-016, RLY-021
async fn a_heartbeat_tells_whether_rows_wait(t: Fixture) -> Checked {
    led(&t, &[(1, "a")]).await?;
    let told = t.heartbeat(1, at(1)).await?;
    assert_eq!((told.ready, told.oldest), (true, Some(at(0))));
    taken(&t, take(1, 1)).await?;
    let told = t.heartbeat(1, at(2)).await?;
    assert_eq!((told.ready, told.oldest), (false, None), "what was taken does not wait");
    Ok(())
}

/// RLY-011, PBX-013
async fn a_row_that_others_have_locked_is_not_overtaken(t: Fixture) -> Checked {
    let Some(transactions) = t.open.as_ref() else {
        return Err(Halt::NotApplicable("it has one writer at a time"));
    };
    led(&t, &[(1, "a"), (2, "a"), (3, "b")]).await?;
    let mut open = transactions.begin().await?;
    let cancel = Cancel { ids: vec![id(&tsid(1))], by: "ann".to_owned(), now: Some(at(1)) };
    assert_eq!(open.cancel(cancel).await?.len(), 1);
    let waited = tokio::time::timeout(Duration::from_secs(60), taken(&t, take(1, 1))).await;
    let rows = waited.expect("nobody waits for the lock")?;
    assert_eq!(numbers(&rows), [3], "2 stays behind 1, and no other group does");
    open.end(Ending::Rollback).await?;
    assert_eq!(numbers(&taken(&t, take(1, 2)).await?), [1, 2]);
    Ok(())
}

/// PBX-081
async fn rows_without_a_group_overtake_a_locked_one_only_where_each_goes_for_itself(t: Fixture) -> Checked {
    t.write((1..=3).map(|number| row(item(number))).collect(), at(0)).await?;
    led(&t, &[(4, "a"), (5, "a")]).await?;
    let Some(unlock) = t.foreign.lock(&tsid(1)).await? else {
        return Err(Halt::NotApplicable("no transaction can hold a row of it"));
    };
    let few = |ungrouped_order| Take { ungrouped: 2, ungrouped_order, ..take(1, 1) };
    assert_eq!(numbers(&taken(&t, few(Order::PerGroup)).await?), [4, 5], "2 and 3 stay behind 1");
    let overtaking = numbers(&taken(&t, few(Order::None)).await?);
    assert!(overtaking.starts_with(&[2]), "{overtaking:?}");
    unlock().await;
    let rest = (1..=3).filter(|number| !overtaking.contains(number)).collect::<Vec<_>>();
    assert_eq!(numbers(&taken(&t, take(1, 2)).await?), rest);
    Ok(())
}
