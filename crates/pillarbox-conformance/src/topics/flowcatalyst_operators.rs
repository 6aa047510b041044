//! The flowcatalyst layout as it stands and as it is made; leadership, groups, and what operators do.

use pillarbox::model::{Slot, Status};
use pillarbox::port::{
    Cancel, Change, Contents, Counts, Discard, ErrorKind, Fence, GroupAction, Heartbeat, HeldGroups, List,
    PageOrder, Purge, PurgeStatus, Register, Select, StoreError, Take, Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::{Fixture, items};
use crate::item_kit::*;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("flowcatalyst"; Items:
        tables_of_others_are_used_as_they_stand,
        migrating_beside_tables_of_others_leaves_their_rows_alone,
        migrating_makes_the_tables_and_is_harmless_when_repeated,
        missing_tables_are_a_matter_of_migration,
        the_first_of_the_living_leads,
        a_leader_that_dies_or_leaves_is_followed,
        a_dead_head_blocks_its_group_until_an_operator_acts,
        groups_are_paused_and_resumed,
        failed_items_are_replayed_and_discarded,
        only_waiting_items_are_cancelled,
        ended_items_are_purged_by_age,
        the_dead_head_of_a_blocked_group_stays,
        lists_come_in_pages_by_id,
        lists_and_counts_are_filtered,
        lists_leave_contents_out_where_nobody_wants_them,
        stats_count_every_status,
    )
}

/// Node 1, which must lead, takes everything, and all of it dies.
async fn die(t: &Fixture, blocks: Option<&str>, now: i64) -> Result<(), StoreError> {
    let rows = take_all(t, now).await?;
    let batch = rows.iter().map(|row| {
        let blocks = blocks.map(group);
        outcome(
            row,
            Change::Dead { error: "never\nas the endpoint said".to_owned(), counts: Counts::Made(1), blocks },
        )
    });
    let batch = batch.collect();
    assert_eq!(t.settle(Fence::Node(node(1)), batch, at(now)).await?.stale, NONE);
    Ok(())
}

/// How node 1 joins.
fn registration() -> Register {
    let (label, reads) = ("one".to_owned(), pillarbox::port::ReadScope::Share);
    Register { node: node(1), label, reads, lease: LEASE, now: Some(at(0)) }
}

/// RLY-001, RLY-003, RLY-052
async fn tables_of_others_are_used_as_they_stand(t: Fixture) -> Checked {
    t.foreign.make_item_tables().await?;
    let bare = t.bare.as_ref().expect("a database without our tables");
    bare.admin().check().await?;
    bare.write(Write { rows: (1..=4).map(|n| row(item(n))).collect(), now: Some(at(0)) }).await?;
    assert_eq!(bare.admin().stats().await?.by_status(), [4, 0, 0, 0]);
    assert_eq!(bare.admin().list(List { limit: 9, ..List::default() }).await?.len(), 4);
    assert!(bare.admin().show(id(&tsid(1))).await?.is_some());
    let purge = || Purge { status: PurgeStatus::Done, older_than: secs(5), limit: 9, now: Some(at(9)) };
    assert_eq!(bare.admin().purge(purge()).await?, 0);
    // Nodes have tables of ours, beside theirs.
    bare.admin().migrate().await?;
    bare.register(registration()).await?;
    let rows = items(bare).take(Take { rows: 3, ..take(1, 1) }).await?.rows;
    let changes = [
        Change::Done,
        retry(secs(1)),
        Change::Dead { error: "no".to_owned(), counts: Counts::Made(1), blocks: None },
    ];
    let outcomes: Vec<_> = rows.iter().zip(changes).map(|(row, change)| outcome(row, change)).collect();
    let settle = pillarbox::port::Settle {
        fence: Fence::Node(node(1)),
        outcomes: outcomes.into(),
        on_done: pillarbox::port::OnDone::Keep,
        repeats: None,
        now: Some(at(2)),
    };
    assert_eq!(bare.settle(settle).await?.stale, NONE);
    assert_eq!(items(bare).take(take(1, 3)).await?.rows.len(), 2);
    assert_eq!(items(bare).recover(recover(1, 5, 9)).await?, 2);
    assert_eq!(bare.admin().stats().await?.by_status(), [1, 1, 1, 1]);
    assert_eq!(bare.admin().list(List { limit: 9, ..List::default() }).await?.len(), 4);
    assert!(bare.admin().show(id(&tsid(1))).await?.is_some());
    assert_eq!(bare.admin().purge(purge()).await?, 1);
    Ok(())
}

/// RLY-052
async fn migrating_beside_tables_of_others_leaves_their_rows_alone(t: Fixture) -> Checked {
    t.foreign.make_item_tables().await?;
    let bare = t.bare.as_ref().expect("a database without our tables");
    bare.write(Write { rows: vec![row(item(1))], now: Some(at(0)) }).await?;
    let migrated = bare.admin().migrate().await?;
    assert_eq!((migrated.from, migrated.to), (0, 1));
    assert!(bare.admin().show(id(&tsid(1))).await?.is_some());
    assert_eq!(bare.register(registration()).await?.nodes, 1);
    Ok(())
}

/// RLY-052
async fn migrating_makes_the_tables_and_is_harmless_when_repeated(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    let again = t.store.admin().migrate().await?;
    assert_eq!((again.from, again.to), (1, 1));
    t.join(1, at(0)).await?;
    assert_eq!(take_all(&t, 1).await?.len(), 1);
    t.store.admin().check().await?;
    let script = t.store.admin().schema_sql();
    assert!(script.contains("outbox_events") && script.contains("status"), "{script}");
    Ok(())
}

/// RLY-052
async fn missing_tables_are_a_matter_of_migration(t: Fixture) -> Checked {
    let bare = t.bare.as_ref().expect("a database without our tables");
    let missing = bare.admin().check().await.expect_err("nothing is there");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert!(missing.to_string().contains("--layout flowcatalyst"), "{missing}");
    Ok(())
}

/// RLY-021, PBX-011
async fn the_first_of_the_living_leads(t: Fixture) -> Checked {
    assert_eq!(t.store.facts().slots, 1);
    t.write(vec![row(item(1))], at(0)).await?;
    let first = t.join(1, at(0)).await?;
    assert!(held(&first).contains(&0) && first.ready);
    assert_eq!(first.oldest, Some(at(0)));
    let second = t.join(2, at(1)).await?;
    assert!(!held(&second).contains(&0) && !second.ready && second.nodes == 2);
    assert!(held(&t.heartbeat(1, at(2)).await?).contains(&0));
    assert!(!held(&t.heartbeat(2, at(2)).await?).contains(&0));
    Ok(())
}

/// RLY-021, PBX-011, PBX-063
async fn a_leader_that_dies_or_leaves_is_followed(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    t.join(2, at(20)).await?;
    let heir = t.heartbeat(2, at(30)).await?;
    assert!(held(&heir).contains(&0) && suspects(&heir).contains(&0), "one that died may have claims open");
    assert!(t.store.heartbeat(heartbeat(1, at(31))).await?.is_none());
    let trusting = t.heartbeat_with(Heartbeat { trusted: vec![Slot(0)], ..heartbeat(2, at(31)) }).await?;
    for told in [&heir, &trusting] {
        assert!(
            told.held.iter().all(|held| held.quarantine.is_none()),
            "there are no numbers to bound it by"
        );
    }
    t.join(3, at(31)).await?;
    t.store.leave(node(2)).await?;
    let next = t.heartbeat(3, at(32)).await?;
    assert!(held(&next).contains(&0) && suspects(&next).is_empty(), "one that stopped left nothing");
    Ok(())
}

/// PBX-010
async fn a_dead_head_blocks_its_group_until_an_operator_acts(t: Fixture) -> Checked {
    t.write(vec![row(item(1).group("g"))], at(0)).await?;
    let joined = t.join(1, at(0)).await?;
    assert!(joined.groups.is_some_and(|groups| groups.held.is_empty()));
    die(&t, Some("g"), 1).await?;
    let blocked = t.held_group("g").await?.expect("blocked");
    assert_eq!((blocked.event, blocked.by.as_str()), (Some(id(&tsid(1))), "engine"));
    assert_eq!(blocked.reason.as_deref(), Some("never"), "not what the endpoint said");
    assert!(t.heartbeat(1, at(2)).await?.groups.is_some(), "nodes are told");
    assert!(t.change_group("g", GroupAction::Unblock, at(3)).await?);
    assert!(t.held_group("g").await?.is_none());
    let stored = look(&t, 1).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count, stored.error_message), ("PENDING", 0, None));
    die(&t, Some("g"), 4).await?;
    assert!(t.change_group("g", GroupAction::Skip, at(5)).await?);
    assert_eq!(look(&t, 1).await?.status, "FAILED");
    Ok(())
}

/// PBX-010
async fn groups_are_paused_and_resumed(t: Fixture) -> Checked {
    assert!(t.change_group("g", GroupAction::Pause, at(1)).await?);
    assert!(!t.change_group("g", GroupAction::Pause, at(2)).await?);
    assert_eq!(t.held_group("g").await?.expect("paused").since, at(1));
    assert_eq!(t.store.admin().stats().await?.paused_groups, 1);
    assert!(t.change_group("g", GroupAction::Resume, at(3)).await?);
    assert!(t.store.admin().groups(HeldGroups::first()).await?.is_empty());
    let done: Vec<_> = t.store.admin().audit(9).await?.into_iter().map(|entry| entry.action).collect();
    assert_eq!(done, ["resume", "pause"]);
    Ok(())
}

/// EVT-130, PBX-010
async fn failed_items_are_replayed_and_discarded(t: Fixture) -> Checked {
    t.write((1..=3).map(|n| row(item(n).group("g"))).collect(), at(0)).await?;
    t.join(1, at(0)).await?;
    die(&t, Some("g"), 1).await?;
    assert_eq!(t.replay(only(&[&tsid(1), &tsid(2)]), at(2)).await?, 2);
    assert!(t.held_group("g").await?.is_none(), "its head is back");
    let stored = look(&t, 2).await?;
    assert_eq!((stored.status.as_str(), stored.retry_count, stored.error_message), ("PENDING", 0, None));
    let discard = Discard { select: Select::default(), limit: 9, by: "ann".to_owned(), now: Some(at(3)) };
    assert_eq!(t.store.admin().discard(discard).await?, 1);
    assert!(t.foreign.look(&tsid(3)).await?.is_none());
    let audit = t.store.admin().audit(9).await?;
    let mut done: Vec<_> = audit.iter().map(|one| (one.action.as_str(), one.target.clone())).collect();
    done.sort_unstable();
    assert_eq!(done, [("discard", tsid(3)), ("replay", tsid(1)), ("replay", tsid(2))]);
    assert_eq!(take_all(&t, 4).await?.len(), 2);
    Ok(())
}

/// EVT-047
async fn only_waiting_items_are_cancelled(t: Fixture) -> Checked {
    t.write(vec![row(item(1)), row(item(2)), row(item(3))], at(0)).await?;
    t.join(1, at(0)).await?;
    taken(&t, Take { rows: 1, ..take(1, 1) }).await?;
    let ids = (1..=2).map(|n| id(&tsid(n))).collect();
    let cancel = Cancel { ids, by: "ann".to_owned(), now: Some(at(2)) };
    assert_eq!(t.store.admin().cancel(cancel).await?, [id(&tsid(2))]);
    assert_eq!(take_all(&t, 3).await?.len(), 1);
    Ok(())
}

/// EVT-043
async fn ended_items_are_purged_by_age(t: Fixture) -> Checked {
    t.write(vec![row(item(1))], at(0)).await?;
    t.join(1, at(0)).await?;
    let done = take_all(&t, 1).await?.iter().map(|row| outcome(row, Change::Done)).collect();
    t.settle(Fence::Node(node(1)), done, at(10)).await?;
    t.write(vec![row(item(2))], at(0)).await?;
    die(&t, None, 20).await?;
    t.write(vec![row(item(3))], at(0)).await?;
    let purge = |status, now| Purge { status, older_than: secs(5), limit: 9, now: Some(at(now)) };
    let admin = t.store.admin();
    assert_eq!(admin.purge(purge(PurgeStatus::Done, 15)).await?, 0);
    assert_eq!(admin.purge(purge(PurgeStatus::Done, 16)).await?, 1);
    assert_eq!(admin.purge(purge(PurgeStatus::Dead, 25)).await?, 0);
    assert_eq!(admin.purge(purge(PurgeStatus::Dead, 26)).await?, 1);
    assert_eq!(
        admin.purge(purge(PurgeStatus::Any, 26)).await?,
        1,
        "whatever its status, by when it was written"
    );
    Ok(())
}

/// PBX-072: without it, unblocking would silently pass over an item that nobody has delivered.
async fn the_dead_head_of_a_blocked_group_stays(t: Fixture) -> Checked {
    t.write(vec![row(item(1).group("g"))], at(0)).await?;
    t.join(1, at(0)).await?;
    die(&t, Some("g"), 1).await?;
    t.write(vec![row(item(2))], at(0)).await?;
    die(&t, None, 1).await?;
    t.write(vec![row(item(3).group("g"))], at(0)).await?;
    let admin = t.store.admin();
    let purge = |status, limit| Purge { status, older_than: secs(5), limit, now: Some(at(99)) };
    assert_eq!(admin.purge(purge(PurgeStatus::Dead, 1)).await?, 1, "what stays takes no place in a batch");
    assert!(t.foreign.look(&tsid(2)).await?.is_none());
    assert_eq!(admin.purge_in_turn(purge(PurgeStatus::Dead, 9)).await?, 0);
    assert_eq!(admin.purge(purge(PurgeStatus::Any, 9)).await?, 1);
    assert_eq!((look(&t, 1).await?.status.as_str(), t.foreign.look(&tsid(3)).await?), ("FAILED", None));
    t.change_group("g", GroupAction::Pause, at(100)).await?;
    assert_eq!(admin.purge(purge(PurgeStatus::Any, 9)).await?, 0, "it is blocked again when it is resumed");
    t.change_group("g", GroupAction::Resume, at(100)).await?;
    t.change_group("g", GroupAction::Skip, at(100)).await?;
    assert_eq!(admin.purge(purge(PurgeStatus::Dead, 9)).await?, 1, "nothing waits behind it any more");
    Ok(())
}

/// RLY-003
async fn lists_come_in_pages_by_id(t: Fixture) -> Checked {
    t.write([3, 1, 5, 2, 4].map(|n| row(item(n))).to_vec(), at(0)).await?;
    for (order, expected) in
        [(PageOrder::OldestFirst, [1, 2, 3, 4, 5]), (PageOrder::NewestFirst, [5, 4, 3, 2, 1])]
    {
        let (mut seen, mut last) = (Vec::new(), None);
        loop {
            let (after, after_id) = match &last {
                None => (None, None),
                Some((seq, id)) => (Some(*seq), Some(pillarbox::model::EventId::clone(id))),
            };
            let list = List { order, after, after_id, limit: 2, ..List::default() };
            let page = t.store.admin().list(list).await?;
            let Some(record) = page.last() else { break };
            last = Some((record.seq, record.id.clone()));
            seen.extend(page.iter().map(|record| record.id.to_string()));
        }
        assert_eq!(seen, expected.map(tsid));
    }
    Ok(())
}

/// PBX-013, RLY-003
async fn lists_leave_contents_out_where_nobody_wants_them(t: Fixture) -> Checked {
    t.write(vec![row(item(1).group("g"))], at(0)).await?;
    for order in [PageOrder::OldestFirst, PageOrder::NewestFirst] {
        let whole = List { order, limit: 9, ..List::default() };
        let bare = List { contents: Contents::LeftOut, ..whole.clone() };
        let (whole, bare) = (t.store.admin().list(whole).await?, t.store.admin().list(bare).await?);
        assert!(whole[0].event.is_ok() && bare[0].event.is_err(), "{bare:?}");
        assert_eq!((&bare[0].id, &bare[0].group), (&whole[0].id, &whole[0].group), "the rest is the same");
    }
    Ok(())
}

/// RLY-003
async fn lists_and_counts_are_filtered(t: Fixture) -> Checked {
    t.write(vec![row(item(1).group("g"))], at(0)).await?;
    t.join(1, at(0)).await?;
    die(&t, None, 5).await?;
    t.write(vec![row(item(2).group("g")), row(item(3))], at(6)).await?;
    let of = |statuses: &[Status]| Select { statuses: statuses.to_vec(), ..Select::default() };
    for (select, expected) in [
        (Select::default(), vec![1, 2, 3]),
        (of(&[Status::Dead]), vec![1]),
        (of(&[Status::New, Status::Retry]), vec![2, 3]),
        (of(&[Status::Done]), vec![]),
        (Select { group: Some(group("g")), ..Select::default() }, vec![1, 2]),
        (Select { event_type: Some("EVENT".to_owned()), ..Select::default() }, vec![1, 2, 3]),
        (Select { event_type: Some("DISPATCH_JOB".to_owned()), ..Select::default() }, vec![]),
        (Select { aggregate_type: Some("Order".to_owned()), ..Select::default() }, vec![]),
        (Select { ended_before: Some(at(6)), ..Select::default() }, vec![1]),
        (Select { ended_before: Some(at(5)), ..Select::default() }, vec![]),
        (only(&[&tsid(3)]), vec![3]),
    ] {
        let list = List { select: select.clone(), limit: 9, ..List::default() };
        let listed: Vec<_> = t.store.admin().list(list).await?.iter().map(|one| one.id.to_string()).collect();
        assert_eq!(listed, expected.iter().map(|n| tsid(*n)).collect::<Vec<_>>(), "{select:?}");
        assert_eq!(t.store.admin().count(select).await?, expected.len() as u64);
    }
    Ok(())
}

/// RLY-006
async fn stats_count_every_status(t: Fixture) -> Checked {
    t.write(vec![row(item(1)), row(item(2))], at(0)).await?;
    t.join(1, at(0)).await?;
    die(&t, None, 1).await?;
    t.store.write(Write { rows: vec![row(item(3)), row(item(4))], now: None }).await?;
    taken(&t, Take { rows: 1, ..take(1, 1) }).await?;
    t.store.leave(node(1)).await?;
    let stats = t.store.admin().stats().await?;
    assert_eq!((stats.by_status(), stats.written_last_minute), ([2, 0, 0, 2], 2));
    let free = (stats.free_slots, stats.nodes);
    assert_eq!(
        (stats.delayed, stats.queue.pending(), free),
        (0, 0, (2, 0)),
        "leadership and a lane are free"
    );
    let dead: Vec<_> = stats.dead_by_type.iter().map(|one| (one.event_type.as_str(), one.count)).collect();
    assert_eq!(dead, [("EVENT", 2)]);
    assert!(stats.oldest.is_some_and(|age| age < secs(86_400)), "of what waits");
    Ok(())
}
