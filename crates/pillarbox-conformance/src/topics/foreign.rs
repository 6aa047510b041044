//! Rows that other programs write: delivered like ours, and set aside where they can't be read.

use pillarbox::model::{Event, Payload, Status};
use pillarbox::port::{Change, ClaimFrom, Fence, List, Scope, Select};

use crate::case::{Case, Checked, Halt, cases};
use crate::harness::{Fixture, ForeignRow, Planted};
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("foreign"; Nothing:
        a_row_of_fifteen_columns_is_an_event,
        a_row_without_a_group_has_the_slot_of_its_id,
        a_row_without_an_aggregate_type_is_of_the_global_one,
        no_headers_may_be_written_in_three_ways,
        malformed_headers_set_one_row_aside,
        a_row_without_a_payload_is_set_aside,
        a_count_that_is_no_number_is_set_aside,
        a_time_that_is_no_time_is_set_aside,
        a_due_time_that_is_no_time_is_set_aside,
        an_id_that_is_no_text_is_set_aside,
        a_malformed_row_keeps_its_place_in_its_group,
        a_malformed_row_can_die_and_be_looked_at,
        a_malformed_row_can_be_claimed,
    )
}

fn foreign(id: &str) -> ForeignRow {
    ForeignRow {
        event_id: id.to_owned(),
        event_type: "order-placed".to_owned(),
        payload: Some("{}".to_owned()),
        ..ForeignRow::default()
    }
}

async fn plant(t: &Fixture, row: ForeignRow) -> Checked {
    match t.foreign.write(row).await? {
        Planted::Taken => Ok(()),
        Planted::Refused => Err(Halt::NotApplicable("its database refuses such a row")),
    }
}

/// EVT-040
async fn a_row_of_fifteen_columns_is_an_event(t: Fixture) -> Checked {
    let row = ForeignRow {
        aggregate_type: Some("order".to_owned()),
        aggregate_id: Some("7".to_owned()),
        payload: Some("{ \"n\": 1 }".to_owned()),
        headers: Some("{\"k\":\"v\"}".to_owned()),
        ..foreign("a")
    };
    plant(&t, row).await?;
    let row = t.pending().await?.remove(0);
    assert_eq!((row.id.clone(), row.status, row.attempts), (id("a"), Status::New, 0));
    assert_eq!(row.group, Some(group("order/7")));
    let event = row.event.clone().expect("readable");
    assert_eq!((event.event_type(), event.aggregate_type()), ("order-placed", "order"));
    assert_eq!(event.payload(), &Payload::Json("{ \"n\": 1 }".into()));
    assert_eq!(event.headers().get("k"), Some("v"));
    let ours = in_slot(event_of("b"));
    t.write(vec![ours], at(0)).await?;
    assert_eq!(t.record("b").await?.slot, row.slot, "the same group, the same slot, whoever wrote it");
    t.apply("a", Change::Done, at(1)).await?;
    Ok(())
}

fn event_of(id: &str) -> pillarbox::model::EventBuilder {
    event(id).aggregate("order", 7)
}

/// EVT-040, PBX-011
async fn a_row_without_a_group_has_the_slot_of_its_id(t: Fixture) -> Checked {
    for n in 0..20 {
        plant(&t, foreign(&format!("e{n}"))).await?;
    }
    let rows = t.pending().await?;
    assert_eq!(rows.len(), 20);
    let slots = t.store.facts().slots;
    assert!(rows.iter().all(|row| (0..slots).contains(&row.slot.0) && row.group.is_none()));
    assert!(rows.windows(2).any(|pair| pair[0].slot != pair[1].slot), "they spread");
    Ok(())
}

/// EVT-004, EVT-040
async fn a_row_without_an_aggregate_type_is_of_the_global_one(t: Fixture) -> Checked {
    plant(&t, ForeignRow { aggregate_id: Some("7".to_owned()), ..foreign("theirs") }).await?;
    t.write(vec![in_slot(event("ours").aggregate_id(7))], at(0)).await?;
    let rows = t.pending().await?;
    assert_eq!(rows[0].group, Some(group("__GLOBAL__/7")));
    assert_eq!((&rows[0].group, rows[0].slot), (&rows[1].group, rows[1].slot));
    assert_eq!(rows[0].event.as_ref().map(Event::aggregate_type), Ok("__GLOBAL__"));
    Ok(())
}

/// EVT-051
async fn no_headers_may_be_written_in_three_ways(t: Fixture) -> Checked {
    for (name, headers) in [("a", None), ("b", Some("")), ("c", Some("null"))] {
        plant(&t, ForeignRow { headers: headers.map(str::to_owned), ..foreign(name) }).await?;
    }
    let rows = t.pending().await?;
    assert_eq!(ids(&rows), ["a", "b", "c"]);
    assert!(rows.iter().all(|row| row.event.as_ref().is_ok_and(|event| event.headers().is_empty())));
    Ok(())
}

/// Reads rows around one that can't be read.
async fn is_set_aside(t: &Fixture, bad: ForeignRow) -> Checked {
    plant(t, foreign("before")).await?;
    plant(t, bad).await?;
    plant(t, foreign("after")).await?;
    for rows in [t.pending().await?, t.native().fetch(fetch(Scope::Due, at(1_000_000_000))).await?.rows] {
        assert_eq!(ids(&rows), ["before", "bad", "after"]);
        let readable: Vec<bool> = rows.iter().map(|row| row.event.is_ok()).collect();
        assert_eq!(readable, [true, false, true]);
        let reason = rows[1].event.as_ref().expect_err("malformed").to_string();
        assert!(!reason.is_empty() && !reason.contains("s3cret"), "{reason}");
    }
    Ok(())
}

/// EVT-051, EVT-083
async fn malformed_headers_set_one_row_aside(t: Fixture) -> Checked {
    is_set_aside(&t, ForeignRow { headers: Some("{\"token\":s3cret".to_owned()), ..foreign("bad") }).await
}

/// EVT-083
async fn a_row_without_a_payload_is_set_aside(t: Fixture) -> Checked {
    is_set_aside(&t, ForeignRow { payload: None, ..foreign("bad") }).await
}

/// EVT-083
async fn a_count_that_is_no_number_is_set_aside(t: Fixture) -> Checked {
    is_set_aside(&t, ForeignRow { attempts: Some("s3cret".to_owned()), ..foreign("bad") }).await
}

/// EVT-083
async fn a_time_that_is_no_time_is_set_aside(t: Fixture) -> Checked {
    is_set_aside(&t, ForeignRow { created_at: Some("s3cret".to_owned()), ..foreign("bad") }).await
}

/// EVT-083
async fn a_due_time_that_is_no_time_is_set_aside(t: Fixture) -> Checked {
    is_set_aside(&t, ForeignRow { available_at: Some("s3cret".to_owned()), ..foreign("bad") }).await
}

/// EVT-083
async fn an_id_that_is_no_text_is_set_aside(t: Fixture) -> Checked {
    plant(&t, foreign("before")).await?;
    plant(&t, ForeignRow { id_bytes: Some(vec![0xff, 0x00, 0xfe]), ..foreign("bad") }).await?;
    plant(&t, foreign("after")).await?;
    let rows = t.pending().await?;
    assert_eq!(rows.iter().map(|row| row.event.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    let settled = t.settle(Fence::Open, vec![outcome(&rows[1], dead())], at(1)).await?;
    assert_eq!(settled.stale, NONE, "it is ended by its number");
    assert_eq!(ids(&t.pending().await?), ["before", "after"]);
    Ok(())
}

/// EVT-083, PBX-010
async fn a_malformed_row_keeps_its_place_in_its_group(t: Fixture) -> Checked {
    let in_group = |name: &str| ForeignRow {
        aggregate_type: Some("order".to_owned()),
        aggregate_id: Some("7".to_owned()),
        ..foreign(name)
    };
    plant(&t, ForeignRow { headers: Some("[]".to_owned()), ..in_group("bad") }).await?;
    plant(&t, in_group("good")).await?;
    let rows = t.pending().await?;
    assert_eq!(rows[0].group, Some(group("order/7")));
    let scope = Scope::Group { slot: rows[1].slot, group: group("order/7"), from: rows[0].seq };
    assert_eq!(ids(&t.native().fetch(fetch(scope, at(0))).await?.rows), ["bad", "good"]);
    Ok(())
}

/// EVT-083
async fn a_malformed_row_can_die_and_be_looked_at(t: Fixture) -> Checked {
    plant(&t, ForeignRow { headers: Some("[]".to_owned()), ..foreign("bad") }).await?;
    t.apply("bad", dead(), at(5)).await?;
    let record = t.record("bad").await?;
    assert_eq!((record.status, record.event.is_err()), (Status::Dead, true));
    let select = Select {
        statuses: vec![Status::Dead],
        event_type: Some("order-placed".to_owned()),
        ..Select::default()
    };
    let list = List { select: select.clone(), limit: 9, ..List::default() };
    assert_eq!(record_ids(&t.store.admin().list(list).await?), ["bad"]);
    assert_eq!(t.store.admin().stats().await?.dead_by_type[0].event_type, "order-placed");
    assert_eq!(t.replay(select, at(9)).await?, 1);
    assert!(t.pending().await?[0].event.is_err());
    Ok(())
}

/// EVT-047, EVT-083
async fn a_malformed_row_can_be_claimed(t: Fixture) -> Checked {
    plant(&t, ForeignRow { headers: Some("[]".to_owned()), ..foreign("bad") }).await?;
    plant(&t, foreign("good")).await?;
    let claimed = t.claim(ClaimFrom::Events, "ann", 9, at(1_000_000_000)).await?;
    assert_eq!(ids(&claimed), ["bad", "good"]);
    assert!(claimed[0].event.is_err());
    assert_eq!(claimed[1].event.as_ref().map(Event::event_type), Ok("order-placed"));
    Ok(())
}
