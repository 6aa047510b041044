//! Quarantine: what a dead node may have died of, told to each holder of its slots until one trusts them.

use pillarbox::model::{Seq, Slot};
use pillarbox::port::{Heartbeat, Membership, Quarantine};
use pillarbox::rules::SlotRecord;

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("quarantine"; Nothing:
        what_was_pending_at_an_eviction_is_quarantined,
        a_slot_that_is_taken_later_has_the_bound_of_the_eviction,
        a_second_eviction_raises_the_count_and_moves_the_bound,
        a_trusted_slot_is_quarantined_no_more,
        only_the_holder_trusts_a_slot,
        a_quarantine_outlives_an_orderly_handover,
        a_bound_stays_when_the_rows_are_gone,
        operators_see_the_holder_and_the_quarantine_of_a_slot,
    )
}

/// Each quarantined slot with its count and bound.
fn quarantined(membership: &Membership) -> Vec<(i16, u32, i64)> {
    let told = membership.held.iter().filter_map(|held| Some((held.slot.0, held.quarantine?)));
    told.map(|(slot, Quarantine { evictions, upto })| (slot, evictions, upto.0)).collect()
}

/// These slots, each with this count and bound.
fn all(slots: impl IntoIterator<Item = i16>, evictions: u32, upto: Seq) -> Vec<(i16, u32, i64)> {
    slots.into_iter().map(|slot| (slot, evictions, upto.0)).collect()
}

fn trusting(number: u128, slots: &[i16], seconds: i64) -> Heartbeat {
    Heartbeat { trusted: slots.iter().map(|slot| Slot(*slot)).collect(), ..heartbeat(number, at(seconds)) }
}

/// The number of an event.
async fn seq(t: &Fixture, event: &str) -> Result<Seq, pillarbox::port::StoreError> {
    Ok(t.record(event).await?.seq)
}

/// Node 1 dies with two events pending; node 2 takes over what it held.
async fn taken_over(t: &Fixture) -> Result<Membership, pillarbox::port::StoreError> {
    t.join(1, at(0)).await?;
    t.write(grouped("g", &["a", "b"]), at(0)).await?;
    t.join(2, at(10)).await?;
    t.heartbeat(2, at(30)).await
}

/// PBX-063
async fn what_was_pending_at_an_eviction_is_quarantined(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    let heir = taken_over(&t).await?;
    let whole = all((0..slots).chain([64]), 1, seq(&t, "b").await?);
    assert_eq!(quarantined(&heir), whole, "all that the dead node held, and not the heir's own lane");
    t.write(grouped("g", &["c"]), at(30)).await?;
    let next = t.heartbeat(2, at(31)).await?;
    assert_eq!((quarantined(&next), suspects(&next)), (whole.clone(), vec![]), "told until it is trusted");
    let swept = t.heartbeat_with(Heartbeat { sweep: true, ..heartbeat(2, at(32)) }).await?;
    assert_eq!(quarantined(&swept), whole, "rows that came later change nothing");
    Ok(())
}

/// PBX-063: rows that were written between the two can't have been read by the dead node.
async fn a_slot_that_is_taken_later_has_the_bound_of_the_eviction(t: Fixture) -> Checked {
    let half = t.store.facts().slots / 2;
    t.join(1, at(0)).await?;
    t.write(grouped("g", &["a"]), at(0)).await?;
    t.join(2, at(10)).await?;
    t.join(3, at(11)).await?;
    let upto = seq(&t, "a").await?;
    let evicting = t.heartbeat(2, at(30)).await?;
    assert_eq!(quarantined(&evicting), all((0..half).chain([64]), 1, upto));
    t.write(grouped("g", &["b"]), at(30)).await?;
    let taking = t.heartbeat(3, at(31)).await?;
    assert_eq!(quarantined(&taking), all(half..half * 2, 1, upto));
    Ok(())
}

/// PBX-063
async fn a_second_eviction_raises_the_count_and_moves_the_bound(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    taken_over(&t).await?;
    t.write(grouped("g", &["c"]), at(31)).await?;
    let third = t.join(3, at(100)).await?;
    let upto = seq(&t, "c").await?;
    assert_eq!(quarantined(&third), [all((0..slots).chain([64]), 2, upto), all([65], 1, upto)].concat());
    Ok(())
}

/// PBX-063
async fn a_trusted_slot_is_quarantined_no_more(t: Fixture) -> Checked {
    let slots = t.store.facts().slots;
    taken_over(&t).await?;
    let upto = seq(&t, "b").await?;
    let rest = |evictions| all((0..slots).filter(|slot| ![3, 5].contains(slot)), evictions, upto);
    let told = t.heartbeat_with(trusting(2, &[3, 5, 64], 31)).await?;
    assert_eq!(quarantined(&told), rest(1));
    assert_eq!(quarantined(&t.heartbeat(2, at(32)).await?), rest(1));
    let all_trusted: Vec<i16> = (0..slots).collect();
    assert_eq!(quarantined(&t.heartbeat_with(trusting(2, &all_trusted, 33)).await?), []);
    let third = t.join(3, at(100)).await?;
    assert_eq!(quarantined(&third), all((0..slots).chain([64, 65]), 1, upto), "counted from the start");
    Ok(())
}

/// PBX-063
async fn only_the_holder_trusts_a_slot(t: Fixture) -> Checked {
    let whole = quarantined(&taken_over(&t).await?);
    t.join(3, at(31)).await?;
    t.heartbeat_with(trusting(3, &[0, 3, 64], 32)).await?;
    assert_eq!(quarantined(&t.heartbeat(2, at(33)).await?), whole);
    Ok(())
}

/// PBX-063: whoever holds a slot next goes on with what was not tried.
async fn a_quarantine_outlives_an_orderly_handover(t: Fixture) -> Checked {
    let (half, slots) = (t.store.facts().slots / 2, t.store.facts().slots);
    taken_over(&t).await?;
    let upto = seq(&t, "b").await?;
    t.join(3, at(31)).await?;
    t.release(2, &(half..slots).collect::<Vec<_>>(), at(32)).await?;
    let next = t.heartbeat(3, at(33)).await?;
    assert_eq!((quarantined(&next), suspects(&next)), (all(half..slots, 1, upto), vec![]), "released");
    t.store.leave(node(2)).await?;
    let last = t.heartbeat(3, at(34)).await?;
    assert_eq!(quarantined(&last), all((0..slots).chain([64]), 1, upto), "left");
    assert_eq!(suspects(&last), NO_SLOTS);
    Ok(())
}

/// PBX-063: a bound that followed the rows would let numbers that are given again pass it.
async fn a_bound_stays_when_the_rows_are_gone(t: Fixture) -> Checked {
    let whole = quarantined(&taken_over(&t).await?);
    for event in ["b", "a"] {
        t.done_and_gone(event, at(31)).await?;
    }
    assert_eq!(quarantined(&t.heartbeat(2, at(32)).await?), whole);
    let third = t.join(3, at(33)).await?;
    assert_eq!(quarantined(&third), []);
    t.store.leave(node(2)).await?;
    assert_eq!(quarantined(&t.heartbeat(3, at(34)).await?), whole);
    Ok(())
}

/// PBX-297
async fn operators_see_the_holder_and_the_quarantine_of_a_slot(t: Fixture) -> Checked {
    let slot = async |number| t.store.admin().slot(Slot(number)).await;
    assert_eq!(slot(0).await?, Some(SlotRecord::free(Slot(0))));
    taken_over(&t).await?;
    let upto = seq(&t, "b").await?;
    assert_eq!(slot(0).await?, Some(SlotRecord::new(Slot(0), Some(node(2)), false, 1, upto)));
    assert_eq!(slot(65).await?, Some(SlotRecord::new(Slot(65), Some(node(2)), false, 0, Seq(0))));
    assert_eq!(slot(70).await?, Some(SlotRecord::free(Slot(70))), "a lane of nobody");
    Ok(())
}
