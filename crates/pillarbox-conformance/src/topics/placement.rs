//! Where rows go: slots of groups, lanes of nodes, the delayed lane, the queue.

use std::collections::BTreeSet;

use pillarbox::model::{Event, Lane, Slot};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("placement"; Nothing:
        rows_of_one_group_share_a_slot,
        groups_and_ungrouped_rows_spread_over_the_slots,
        the_message_group_goes_before_the_aggregate,
        an_aggregate_without_a_type_is_of_the_global_one,
        groups_compare_by_bytes,
        rows_of_a_lane_have_its_slot,
        rows_due_later_wait_in_the_delayed_lane,
        rows_due_now_or_before_do_not_wait,
        queue_rows_stay_in_the_queue_whenever_they_are_due,
        the_time_of_expiry_is_kept,
    )
}

/// PBX-010
async fn rows_of_one_group_share_a_slot(t: Fixture) -> Checked {
    for group in ["g", "h", "customer-17"] {
        let names = ["1", "2", "3"].map(|n| format!("{group}{n}"));
        t.write(names.iter().map(|name| in_slot(event(name).group(group))).collect(), at(0)).await?;
        let slots: BTreeSet<Slot> = t
            .pending()
            .await?
            .iter()
            .filter(|row| row.group == Some(self::group(group)))
            .map(|row| row.slot)
            .collect();
        assert_eq!(slots.len(), 1, "{group}");
        assert!((0..t.store.facts().slots).contains(&slots.first().expect("one").0));
    }
    Ok(())
}

/// PBX-011
async fn groups_and_ungrouped_rows_spread_over_the_slots(t: Fixture) -> Checked {
    let groups = (0..400).map(|n| in_slot(event(&format!("g{n}")).group(format!("group-{n}"))));
    let plain = (0..400).map(|n| in_slot(event(&format!("p{n}"))));
    t.write(groups.chain(plain).collect(), at(0)).await?;
    let rows = t.pending().await?;
    let slots = t.store.facts().slots;
    for ungrouped in [false, true] {
        let rows = rows.iter().filter(|row| row.group.is_none() == ungrouped);
        let used: BTreeSet<Slot> = rows.map(|row| row.slot).collect();
        assert!(used.iter().all(|slot| (0..slots).contains(&slot.0)));
        assert!(used.len() * 2 > slots as usize, "only {} of {slots} slots are used", used.len());
    }
    Ok(())
}

/// PBX-010
async fn the_message_group_goes_before_the_aggregate(t: Fixture) -> Checked {
    let both = event("a").group("g").aggregate("order", 1);
    let aggregate = event("b").aggregate("order", 1);
    let kind_only = event("c").aggregate_type("order");
    t.write([both, aggregate, kind_only].map(in_slot).to_vec(), at(0)).await?;
    let groups: Vec<_> = t.pending().await?.into_iter().map(|row| row.group).collect();
    assert_eq!(groups, [Some(group("g")), Some(group("order/1")), None]);
    Ok(())
}

/// EVT-004, PBX-010
async fn an_aggregate_without_a_type_is_of_the_global_one(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a").aggregate_id(7))], at(0)).await?;
    let row = t.pending().await?.remove(0);
    assert_eq!(row.group, Some(group("__GLOBAL__/7")));
    assert_eq!(row.event.as_ref().map(Event::aggregate_type), Ok("__GLOBAL__"));
    Ok(())
}

/// PBX-010
async fn groups_compare_by_bytes(t: Fixture) -> Checked {
    let names = ["g", "G", "g ", "ğ"];
    t.write(names.iter().map(|name| in_slot(event(name).group(*name))).collect(), at(0)).await?;
    for row in t.pending().await? {
        let scope = pillarbox::port::Scope::Group {
            slot: row.slot,
            group: row.group.clone().expect("grouped"),
            from: pillarbox::model::Seq(0),
        };
        assert_eq!(ids(&t.native().fetch(fetch(scope, at(0))).await?.rows), [row.id.as_str()]);
    }
    Ok(())
}

/// PBX-012
async fn rows_of_a_lane_have_its_slot(t: Fixture) -> Checked {
    t.write(vec![in_lane(event("a"), 64), in_lane(event("b").group("g"), 70)], at(0)).await?;
    let rows = t.pending().await?;
    assert_eq!(rows.iter().map(|row| row.slot).collect::<Vec<_>>(), [Slot(64), Slot(70)]);
    assert_eq!(rows[1].group, Some(group("g")));
    assert_eq!(t.record("b").await?.slot, Slot(70));
    Ok(())
}

/// PBX-014
async fn rows_due_later_wait_in_the_delayed_lane(t: Fixture) -> Checked {
    let rows = vec![
        in_slot(event("a").due(at(60))),
        in_lane(event("b").due(secs(60)), 64),
        in_slot(event("c").group("g").due(secs(60))),
    ];
    assert!(t.write(rows, at(0)).await?.iter().all(|one| one.delayed && one.fresh));
    for name in ["a", "b", "c"] {
        let record = t.record(name).await?;
        assert_eq!((record.slot, record.available_at), (Lane::DELAYED.slot(), at(60)), "{name}");
        assert_eq!(record.created_at, at(0));
    }
    assert!(t.pending().await?.is_empty());
    Ok(())
}

/// PBX-014
async fn rows_due_now_or_before_do_not_wait(t: Fixture) -> Checked {
    let rows = vec![
        in_slot(event("a").due(at(0))),
        in_lane(event("b").due(at(-60)), 64),
        in_slot(event("c").due(secs(0))),
    ];
    assert!(t.write(rows, at(0)).await?.iter().all(|one| !one.delayed));
    let rows = t.pending().await?;
    assert_eq!(ids(&rows), ["a", "b", "c"]);
    assert!(rows.iter().all(|row| row.available_at == at(0)));
    Ok(())
}

/// PBX-014
async fn queue_rows_stay_in_the_queue_whenever_they_are_due(t: Fixture) -> Checked {
    let rows = vec![in_queue(event("a")), in_queue(event("b").due(at(60)))];
    assert!(t.write(rows, at(0)).await?.iter().all(|one| !one.delayed));
    let (a, b) = (t.record("a").await?, t.record("b").await?);
    assert_eq!((a.slot, b.slot), (Lane::QUEUE.slot(), Lane::QUEUE.slot()));
    assert_eq!((a.available_at, b.available_at), (at(0), at(60)));
    assert!(t.pending().await?.is_empty());
    Ok(())
}

/// PBX-019
async fn the_time_of_expiry_is_kept(t: Fixture) -> Checked {
    t.write(
        vec![in_slot(event("a").expires(at(60))), in_slot(event("b").expires(secs(5))), in_slot(event("c"))],
        at(0),
    )
    .await?;
    let expiries: Vec<_> = t.pending().await?.iter().map(|row| row.expires_at).collect();
    assert_eq!(expiries, [Some(at(60)), Some(at(5)), None]);
    assert_eq!(t.record("b").await?.expires_at, Some(at(5)));
    Ok(())
}
