//! Inspection: pages, one event, counts, the state of it all, who did what.

use pillarbox::model::{Record, Seq, Status};
use pillarbox::port::{
    Cancel, Change, ClaimFrom, Contents, Discard, GroupAction, HeldGroups, List, PageOrder, ReadScope,
    Register, Select, StatusCounts, StoreError, TypeCount, Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("inspect";
    Nothing:
        a_page_goes_on_where_the_last_one_ended,
        newest_first_is_the_other_way_round,
        contents_are_left_out_where_nobody_wants_them,
        everything_that_is_set_must_match,
        a_global_aggregate_is_found_by_its_name,
        an_unknown_event_is_not_shown,
        a_claim_is_shown,
        figures_count_by_status_lane_and_type,
        figures_tell_age_and_rates,
        figures_tell_of_nodes_slots_and_groups,
        operators_actions_are_recorded_by_event;
    AnyKind:
        an_empty_outbox_has_empty_figures,
        nodes_are_listed_in_the_order_they_joined,
        a_node_tells_its_state_until_it_is_gone,
        the_record_of_actions_comes_newest_first;
    )
}

async fn page(t: &Fixture, order: PageOrder, after: Option<Seq>) -> Result<Vec<Record>, StoreError> {
    t.store.admin().list(List { order, after, limit: 2, ..List::default() }).await
}

/// PBX-022
async fn a_page_goes_on_where_the_last_one_ended(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c", "d", "e"]), at(0)).await?;
    t.apply("c", Change::Done, at(1)).await?;
    let (mut after, mut seen) = (None, Vec::new());
    for _ in 0..4 {
        let records = page(&t, PageOrder::OldestFirst, after).await?;
        after = records.last().map(|record| record.seq).or(after);
        seen.extend(records);
    }
    assert_eq!(record_ids(&seen), ["a", "b", "c", "d", "e"]);
    assert!(t.store.admin().list(List::default()).await?.is_empty(), "none were asked for");
    Ok(())
}

/// PBX-013, PBX-022
async fn contents_are_left_out_where_nobody_wants_them(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    for order in [PageOrder::OldestFirst, PageOrder::NewestFirst] {
        let whole = List { order, limit: 9, ..List::default() };
        let bare = List { contents: Contents::LeftOut, ..whole.clone() };
        let (whole, bare) = (t.store.admin().list(whole).await?, t.store.admin().list(bare).await?);
        assert!(whole[0].event.is_ok() && bare[0].event.is_err(), "{bare:?}");
        let told = |record: &Record| (record.seq, record.id.clone(), record.slot, record.status);
        assert_eq!(told(&bare[0]), told(&whole[0]), "the rest is the same");
        assert_eq!(bare[0].group, whole[0].group);
    }
    Ok(())
}

/// PBX-022
async fn newest_first_is_the_other_way_round(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c"]), at(0)).await?;
    let first = page(&t, PageOrder::NewestFirst, None).await?;
    assert_eq!(record_ids(&first), ["c", "b"]);
    assert_eq!(record_ids(&page(&t, PageOrder::NewestFirst, Some(first[1].seq)).await?), ["a"]);
    Ok(())
}

/// EVT-140, PBX-022
async fn everything_that_is_set_must_match(t: Fixture) -> Checked {
    let row = |id: &str, kind: &str, about: &str, n: u32| {
        in_slot(pillarbox::Event::text(kind.to_owned(), "{}").id(id).aggregate(about, n))
    };
    let rows = vec![
        row("a", "paid", "order", 1),
        row("b", "paid", "order", 2),
        row("c", "sent", "order", 1),
        row("d", "paid", "parcel", 1),
    ];
    t.write(rows, at(0)).await?;
    t.apply("b", Change::Done, at(5)).await?;
    t.apply("d", dead(), at(6)).await?;
    let paid = Select { event_type: Some("paid".to_owned()), ..Select::default() };
    let of_order = Select { aggregate_type: Some("order".to_owned()), ..Select::default() };
    let selects = [
        (Select::default(), vec!["a", "b", "c", "d"]),
        (only(&["c", "a", "x"]), vec!["a", "c"]),
        (paid.clone(), vec!["a", "b", "d"]),
        (of_order.clone(), vec!["a", "b", "c"]),
        (Select { aggregate_type: of_order.aggregate_type, ..paid.clone() }, vec!["a", "b"]),
        (Select { group: Some(group("order/1")), ..Select::default() }, vec!["a", "c"]),
        (Select { group: Some(group("order/1")), ..paid.clone() }, vec!["a"]),
        (Select { statuses: vec![Status::Done, Status::Dead], ..Select::default() }, vec!["b", "d"]),
        (Select { statuses: vec![Status::New], ..paid }, vec!["a"]),
        (Select { ended_before: Some(at(6)), ..Select::default() }, vec!["b"]),
        (Select { ended_before: Some(at(7)), ..only(&["a", "d"]) }, vec!["d"]),
    ];
    for (select, expected) in selects {
        let list = List { select: select.clone(), limit: MANY, ..List::default() };
        assert_eq!(record_ids(&t.store.admin().list(list).await?), expected, "{select:?}");
        assert_eq!(t.store.admin().count(select).await?, expected.len() as u64);
    }
    Ok(())
}

/// EVT-004, EVT-140
async fn a_global_aggregate_is_found_by_its_name(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a")), in_slot(event("b").aggregate_type("order"))], at(0)).await?;
    let global = Select { aggregate_type: Some("__GLOBAL__".to_owned()), ..Select::default() };
    let list = List { select: global, limit: 9, ..List::default() };
    assert_eq!(record_ids(&t.store.admin().list(list).await?), ["a"]);
    Ok(())
}

/// PBX-022
async fn an_unknown_event_is_not_shown(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    assert!(t.store.admin().show(id("b")).await?.is_none());
    assert_eq!(t.store.admin().show(id("a")).await?.expect("there").record.id, id("a"));
    Ok(())
}

/// PBX-022
async fn a_claim_is_shown(t: Fixture) -> Checked {
    t.write(vec![in_queue(event("a"))], at(0)).await?;
    t.claim(ClaimFrom::Queue, "ann", 1, at(3)).await?;
    let record = t.record("a").await?;
    assert_eq!((record.locked_by.as_deref(), record.locked_until), (Some("ann"), Some(at(33))));
    Ok(())
}

/// PBX-022
async fn an_empty_outbox_has_empty_figures(t: Fixture) -> Checked {
    let stats = t.store.admin().stats().await?;
    assert_eq!((stats.by_status(), stats.oldest, stats.nodes), ([0; 4], None, 0));
    assert_eq!(stats.free_slots, u64::from(t.store.facts().slots.unsigned_abs()));
    assert!(
        t.store.admin().groups(HeldGroups::first()).await?.is_empty()
            && t.store.admin().nodes().await?.is_empty()
    );
    assert!(t.store.admin().audit(9).await?.is_empty());
    Ok(())
}

/// PBX-022, PBX-212
async fn figures_count_by_status_lane_and_type(t: Fixture) -> Checked {
    let row = |id: &str, kind: &str| in_slot(pillarbox::Event::text(kind.to_owned(), "{}").id(id));
    let rows = ["a", "b", "c", "d"].map(|id| row(id, "paid")).into_iter();
    let rows = rows.chain(["e", "f", "g"].map(|id| row(id, "sent"))).chain([row("h", "lost")]);
    let messages = ["q1", "q2", "q3"].map(|id| in_queue(event(id))).into_iter();
    let special =
        [in_queue(pillarbox::Event::text("sent", "{}").id("q4")), in_slot(event("later").due(at(9)))];
    t.write(rows.chain(messages).chain(special).collect(), at(0)).await?;
    t.apply("a", Change::Done, at(1)).await?;
    t.apply("b", retry(secs(1)), at(1)).await?;
    t.apply("q2", Change::Done, at(1)).await?;
    t.apply("q3", retry(secs(1)), at(1)).await?;
    for id in ["c", "d", "e", "f", "g", "h", "q4"] {
        t.apply(id, dead(), at(1)).await?;
    }
    let stats = t.store.admin().stats().await?;
    assert_eq!(stats.events, StatusCounts { new: 1, retry: 1, done: 1, dead: 6 });
    assert_eq!(stats.queue, StatusCounts { new: 1, retry: 1, done: 1, dead: 1 });
    assert_eq!((stats.by_status(), stats.delayed), ([2, 2, 2, 7], 1), "the message to retry is not delayed");
    let count = |kind: &str, count| TypeCount { event_type: kind.to_owned(), count };
    assert_eq!(stats.dead_by_type, [count("sent", 4), count("paid", 2), count("lost", 1)], "most first");
    Ok(())
}

/// PBX-022
async fn figures_tell_age_and_rates(t: Fixture) -> Checked {
    let scope = pillarbox::port::Scope::Due;
    let now = t.native().fetch(pillarbox::port::Fetch { now: None, ..fetch(scope, at(0)) }).await?.now;
    t.write(vec![in_slot(event("waits").due(now + secs(3600)))], now - secs(9_000)).await?;
    t.write(plain(&["old"]), now - secs(3_600)).await?;
    t.write(plain(&["done"]), now - secs(7_200)).await?;
    t.store.write(Write { rows: plain(&["fresh"]), now: None }).await?;
    t.apply("done", Change::Done, now).await?;
    let stats = t.store.admin().stats().await?;
    let oldest = stats.oldest.expect("a pending row that is due").as_secs();
    assert!((3_600..4_200).contains(&oldest), "{oldest}");
    assert_eq!((stats.written_last_minute, stats.done_last_minute), (1, 1));
    Ok(())
}

/// PBX-022
async fn figures_tell_of_nodes_slots_and_groups(t: Fixture) -> Checked {
    let join = |number, lease| Register {
        node: node(number),
        label: String::new(),
        reads: ReadScope::Share,
        lease,
        now: None,
    };
    t.store.register(join(1, secs(3_600))).await?;
    t.change_group("p", GroupAction::Pause, at(0)).await?;
    t.write(grouped("g", &["a"]), at(0)).await?;
    t.apply("a", dead_blocking("g"), at(0)).await?;
    let stats = t.beside.admin().stats().await?;
    assert_eq!((stats.nodes, stats.free_slots), (1, 0));
    assert_eq!((stats.blocked_groups, stats.paused_groups), (1, 1));
    t.store.leave(node(1)).await?;
    let stats = t.store.admin().stats().await?;
    assert_eq!(stats.free_slots, u64::from(t.store.facts().slots.unsigned_abs()) + 1, "its lane is free too");
    t.join(2, at(0)).await?;
    assert_eq!(t.store.admin().stats().await?.nodes, 0, "its lease has run out long ago");
    Ok(())
}

/// PBX-090
async fn a_node_tells_its_state_until_it_is_gone(t: Fixture) -> Checked {
    t.join(1, at(0)).await?;
    let states = async || -> Result<Vec<Option<String>>, StoreError> {
        Ok(t.store.admin().nodes().await?.into_iter().map(|info| info.state).collect())
    };
    assert_eq!(states().await?, [None]);
    let state = "{\"sink\":\"fails — Grüße\"}";
    t.store.publish(node(1), state.to_owned()).await?;
    t.heartbeat(1, at(1)).await?;
    assert_eq!(states().await?, [Some(state.to_owned())], "a heartbeat leaves it alone");
    t.store.publish(node(1), "{}".to_owned()).await?;
    t.store.publish(node(7), "{}".to_owned()).await?;
    assert_eq!(states().await?, [Some("{}".to_owned())], "a node that is not there tells nothing");
    t.store.leave(node(1)).await?;
    assert_eq!(states().await?, []);
    Ok(())
}

/// PBX-022
async fn nodes_are_listed_in_the_order_they_joined(t: Fixture) -> Checked {
    let join = |number, label: &str| Register {
        node: node(number),
        label: label.to_owned(),
        reads: ReadScope::Share,
        lease: secs(3_600),
        now: None,
    };
    t.store.register(join(9, "first")).await?;
    t.store.register(join(1, "second")).await?;
    let nodes = t.store.admin().nodes().await?;
    let told: Vec<_> = nodes.iter().map(|info| (info.node, info.label.as_str(), info.lane.0)).collect();
    assert_eq!(told, [(node(9), "first", 64), (node(1), "second", 65)]);
    let slots = usize::try_from(t.store.facts().slots).expect("positive");
    assert_eq!([nodes[0].slots, nodes[1].slots], [slots + 1, 1]);
    assert!(nodes.iter().all(|info| info.expires_in.is_some_and(|left| left <= secs(3_600))));
    t.store.leave(node(9)).await?;
    t.store.leave(node(1)).await?;
    t.join(3, at(0)).await?;
    let nodes = t.store.admin().nodes().await?;
    assert_eq!(
        (nodes[0].node, nodes[0].joined_at, nodes[0].expires_in),
        (node(3), at(0), None),
        "not yet evicted"
    );
    assert_eq!(nodes[0].expires_at, at(0) + LEASE, "also when it has passed");
    Ok(())
}

/// EVT-141, PBX-027
async fn operators_actions_are_recorded_by_event(t: Fixture) -> Checked {
    t.write(plain(&["a", "b", "c", "d"]), at(0)).await?;
    for id in ["a", "b"] {
        t.apply(id, dead(), at(1)).await?;
    }
    t.replay(only(&["a"]), at(2)).await?;
    let by = "bob".to_owned();
    let discard = Discard { select: only(&["b", "c"]), limit: 9, by: by.clone(), now: Some(at(3)) };
    t.store.admin().discard(discard).await?;
    let cancel = Cancel { ids: vec![id("c"), id("b")], by, now: Some(at(4)) };
    t.store.admin().cancel(cancel).await?;
    t.apply("d", Change::Done, at(5)).await?;
    let audit = t.store.admin().audit(9).await?;
    let told: Vec<_> = audit
        .iter()
        .map(|entry| (entry.at, entry.by.as_str(), entry.action.as_str(), entry.target.as_str()))
        .collect();
    assert_eq!(
        told,
        [(at(4), "bob", "cancel", "c"), (at(3), "bob", "discard", "b"), (at(2), "ann", "replay", "a")],
        "what changed nothing, and what the engine did, is not recorded"
    );
    Ok(())
}

/// PBX-022
async fn the_record_of_actions_comes_newest_first(t: Fixture) -> Checked {
    for key in ["a", "b", "c"] {
        t.change_group(key, GroupAction::Pause, at(1)).await?;
    }
    let two = t.store.admin().audit(2).await?;
    assert_eq!(two.iter().map(|entry| entry.target.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    assert!(t.store.admin().audit(0).await?.is_empty());
    Ok(())
}
