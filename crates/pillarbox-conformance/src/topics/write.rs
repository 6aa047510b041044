//! Writing: what goes in comes back, once, with a number that grows.

use std::time::Duration;

use jiff::SignedDuration;
use pillarbox::model::{
    AGGREGATE_ID_MAX, AGGREGATE_TYPE_MAX, CORRELATION_ID_MAX, EVENT_TYPE_MAX, Event, Headers,
    MESSAGE_GROUP_MAX, MESSAGE_ID_MAX, PAYLOAD_MAX, Payload, Status, TENANT_ID_MAX, Token,
};
use pillarbox::port::{
    Cancel, Change, Claim, ClaimFrom, Counts, Cursor, ErrorKind, Fetch, GroupAction, List, Purge,
    PurgeStatus, ReadScope, Register, Scope, Select, Write,
};

use crate::case::{Case, Checked, cases};
use crate::harness::Fixture;
use crate::kit::*;

pub(crate) fn cases() -> Vec<Case> {
    cases!("write"; Nothing:
        fresh_rows_are_new_and_untried,
        ids_and_numbers_come_back_in_the_order_written,
        one_is_the_single_element_case_of_many,
        every_field_reads_back_as_written,
        json_text_is_kept_byte_for_byte,
        raw_bytes_are_kept_byte_for_byte,
        payloads_may_be_empty_or_of_the_largest_size,
        names_at_their_bounds_fit,
        headers_of_any_text_read_back_and_empty_ones_are_none,
        a_second_write_with_the_same_message_id_is_the_same_event,
        a_message_id_twice_in_one_call_is_one_event,
        a_message_id_is_free_again_once_its_event_is_gone,
        an_event_id_twice_is_a_conflict_that_writes_nothing,
        a_write_that_is_made_again_answers_with_the_first,
        numbers_are_never_used_twice,
        ids_and_message_ids_compare_by_bytes,
        times_are_whole_microseconds,
        rows_are_stamped_by_the_databases_clock,
        values_are_never_read_as_statements,
        numbers_and_durations_may_be_absurd,
    )
}

/// EVT-041, EVT-042
async fn fresh_rows_are_new_and_untried(t: Fixture) -> Checked {
    let written = t.write(plain(&["a"]), at(0)).await?;
    assert!(written[0].fresh && !written[0].delayed);
    let record = t.record("a").await?;
    assert_eq!((record.status, record.status.code(), record.attempts), (Status::New, 0, 0));
    assert_eq!((record.created_at, record.available_at), (at(0), at(0)));
    assert_eq!((record.done_at, record.expires_at, record.locked_until), (None, None, None));
    assert_eq!((record.last_error, record.locked_by, record.token), (None, None, Token(0)));
    assert_eq!(record.seq, written[0].seq);
    Ok(())
}

/// EVT-030
async fn ids_and_numbers_come_back_in_the_order_written(t: Fixture) -> Checked {
    let names: Vec<String> = (0..250).map(|n| format!("event-{}", (n * 37) % 250)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let written = t.write(plain(&names), at(0)).await?;
    let answered: Vec<&str> = written.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(answered, names);
    assert!(written.windows(2).all(|pair| pair[0].seq < pair[1].seq), "numbers do not grow");
    for one in [&written[0], &written[249]] {
        assert_eq!(t.record(one.id.as_str()).await?.seq, one.seq);
    }
    Ok(())
}

/// EVT-030
async fn one_is_the_single_element_case_of_many(t: Fixture) -> Checked {
    assert_eq!(t.write(vec![], at(0)).await?, []);
    let one = t.write(plain(&["a"]), at(0)).await?;
    let many = t.write(plain(&["b", "c"]), at(0)).await?;
    assert_eq!((one.len(), many.len()), (1, 2));
    assert_eq!(t.pending().await?.len(), 3);
    Ok(())
}

/// EVT-005, EVT-006, EVT-009, EVT-012, EVT-040
async fn every_field_reads_back_as_written(t: Fixture) -> Checked {
    let event = Event::text("order-placed", r#"{"n":1}"#)
        .id("a")
        .aggregate("order", 7)
        .tenant("acme")
        .group("customer-3")
        .message_id("m-1")
        .correlation_id("c-1")
        .header("k", "v")
        .occurred_at(at(-5))
        .build();
    let event = event.expect("a valid event");
    let row = pillarbox::model::NewRow { event: event.clone(), placement: pillarbox::model::Placement::Slot };
    t.write(vec![row], at(0)).await?;
    let read = t.pending().await?.remove(0);
    assert_eq!(read.group, Some(group("customer-3")));
    for found in [read.event, t.record("a").await?.event] {
        assert_eq!(found.as_ref(), Ok(&event));
    }
    Ok(())
}

/// EVT-007, EVT-009
async fn json_text_is_kept_byte_for_byte(t: Fixture) -> Checked {
    let text = "{ \"b\":1,\n\t\"a\":1.0, \"a\":2, \"ä\":\"\\u00e4 \u{1F4EE} 'x' \\\\ %s $1 ?\" }  ";
    t.write(vec![in_slot(Event::text("t", text).id("a"))], at(0)).await?;
    let event = t.pending().await?.remove(0).event.expect("readable");
    assert_eq!(event.payload(), &Payload::Json(text.into()));
    Ok(())
}

/// EVT-007
async fn raw_bytes_are_kept_byte_for_byte(t: Fixture) -> Checked {
    let bytes: Vec<u8> = (0..=255).rev().chain(0..=255).collect();
    t.write(vec![in_slot(Event::bytes("t", bytes.clone()).id("a"))], at(0)).await?;
    let event = t.pending().await?.remove(0).event.expect("readable");
    assert_eq!(event.payload(), &Payload::Bytes(bytes.into()));
    Ok(())
}

/// EVT-007, EVT-008
async fn payloads_may_be_empty_or_of_the_largest_size(t: Fixture) -> Checked {
    let largest = format!("\"{}\"", "x".repeat(PAYLOAD_MAX - 2));
    let payloads = [
        Payload::Json("".into()),
        Payload::Bytes([].into()),
        Payload::Json(largest.clone().into()),
        Payload::Bytes(largest.as_bytes().into()),
    ];
    let row = |payload: &Payload| match payload {
        Payload::Json(text) => in_slot(Event::text("t", text.to_string())),
        Payload::Bytes(bytes) => in_slot(Event::bytes("t", bytes.to_vec())),
    };
    t.write(payloads.iter().map(row).collect(), at(0)).await?;
    let read = t.pending().await?;
    let read: Vec<_> = read.iter().map(|row| row.event.as_ref().map(Event::payload)).collect();
    assert_eq!(read, payloads.iter().map(Ok).collect::<Vec<_>>());
    Ok(())
}

/// EVT-040: bounds are in characters, so the widest ones must fit.
async fn names_at_their_bounds_fit(t: Fixture) -> Checked {
    let text = |max: usize| "\u{1F4EE}".repeat(max);
    let row = in_slot(
        Event::text(text(EVENT_TYPE_MAX), "{}")
            .id(text(36))
            .aggregate(text(AGGREGATE_TYPE_MAX), text(AGGREGATE_ID_MAX))
            .tenant(text(TENANT_ID_MAX))
            .group(text(MESSAGE_GROUP_MAX))
            .message_id(text(MESSAGE_ID_MAX))
            .correlation_id(text(CORRELATION_ID_MAX)),
    );
    let event = row.event.clone();
    t.write(vec![row], at(0)).await?;
    let read = t.pending().await?.remove(0).event.expect("readable");
    assert_eq!(read.event_type(), event.event_type());
    assert_eq!(read.aggregate_id(), event.aggregate_id());
    assert_eq!((read.message_group(), read.message_id()), (event.message_group(), event.message_id()));
    t.apply(&text(36), dead_blocking(&text(MESSAGE_GROUP_MAX)), at(1)).await?;
    assert_eq!(t.record(&text(36)).await?.status, Status::Dead, "its group has room where blocked ones are");
    Ok(())
}

/// EVT-006, EVT-051
async fn headers_of_any_text_read_back_and_empty_ones_are_none(t: Fixture) -> Checked {
    let row = event("a").header("k\"ey", "a\"b\\c\n\u{1F4EE}").header("empty", "").header("B", "null");
    t.write(vec![in_slot(row), in_slot(event("b"))], at(0)).await?;
    let read = t.pending().await?;
    let headers: Headers =
        [("k\"ey", "a\"b\\c\n\u{1F4EE}"), ("empty", ""), ("B", "null")].into_iter().collect();
    assert_eq!(read[0].event.as_ref().map(Event::headers), Ok(&headers));
    assert_eq!(read[1].event.as_ref().map(Event::headers), Ok(&Headers::default()));
    Ok(())
}

/// EVT-042
async fn a_second_write_with_the_same_message_id_is_the_same_event(t: Fixture) -> Checked {
    let first = t.write(vec![in_slot(event("a").message_id("m"))], at(0)).await?;
    let second = t.write(vec![in_slot(event("b").message_id("m")), in_slot(event("c"))], at(1)).await?;
    assert!(first[0].fresh && !second[0].fresh && second[1].fresh);
    assert_eq!((&second[0].id, second[0].seq), (&first[0].id, first[0].seq));
    assert_eq!(ids(&t.pending().await?), ["a", "c"]);
    t.apply("a", Change::Done, at(2)).await?;
    let third = t.write(vec![in_slot(event("d").message_id("m"))], at(3)).await?;
    assert!(!third[0].fresh, "a done event keeps its message id");
    Ok(())
}

/// EVT-042
async fn a_message_id_twice_in_one_call_is_one_event(t: Fixture) -> Checked {
    let rows = ["a", "b"].map(|id| in_slot(event(id).message_id("m")));
    let written = t.write([rows.to_vec(), plain(&["c"])].concat(), at(0)).await?;
    assert_eq!(written.iter().map(|one| one.fresh).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((&written[1].id, written[1].seq), (&written[0].id, written[0].seq));
    assert_eq!(ids(&t.pending().await?), ["a", "c"]);
    Ok(())
}

/// EVT-042
async fn a_message_id_is_free_again_once_its_event_is_gone(t: Fixture) -> Checked {
    t.write(vec![in_slot(event("a").message_id("m"))], at(0)).await?;
    let cancel = Cancel { ids: vec![id("a")], by: "ann".to_owned(), now: Some(at(1)) };
    assert_eq!(t.store.admin().cancel(cancel).await?, [id("a")]);
    let again = t.write(vec![in_slot(event("b").message_id("m"))], at(2)).await?;
    assert!(again[0].fresh);
    assert_eq!(again[0].id, id("b"));
    Ok(())
}

/// EVT-040
async fn an_event_id_twice_is_a_conflict_that_writes_nothing(t: Fixture) -> Checked {
    t.write(plain(&["a"]), at(0)).await?;
    for rows in [plain(&["b", "a", "c"]), plain(&["b", "c", "b"])] {
        let error = t.write(rows, at(1)).await.expect_err("the same id twice");
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    assert_eq!(ids(&t.pending().await?), ["a"]);
    assert!(t.write(plain(&["b", "c"]), at(2)).await?.iter().all(|one| one.fresh));
    Ok(())
}

/// EVT-042
async fn a_write_that_is_made_again_answers_with_the_first(t: Fixture) -> Checked {
    let row = in_slot(event("a").message_id("m"));
    let first = t.write(vec![row.clone()], at(0)).await?;
    let again = t.write(vec![row], at(1)).await?;
    assert_eq!((&again[0].id, again[0].seq, again[0].fresh), (&first[0].id, first[0].seq, false));
    Ok(())
}

/// PBX-010
async fn numbers_are_never_used_twice(t: Fixture) -> Checked {
    let mut last = t.write(plain(&["cancelled"]), at(0)).await?[0].seq;
    let cancel = Cancel { ids: vec![id("cancelled")], by: "ann".to_owned(), now: Some(at(1)) };
    t.store.admin().cancel(cancel).await?;
    for name in ["done", "purged", "after"] {
        let seq = t.write(plain(&[name]), at(2)).await?[0].seq;
        assert!(seq > last, "{seq} was used before");
        last = seq;
        match name {
            "done" => t.done_and_gone(name, at(3)).await?,
            "purged" => {
                t.apply(name, Change::Done, at(3)).await?;
                let purge =
                    Purge { status: PurgeStatus::Done, older_than: secs(1), limit: 9, now: Some(at(9)) };
                assert_eq!(t.store.admin().purge(purge).await?, 1);
            }
            _ => {}
        }
    }
    Ok(())
}

/// PBX-010
async fn ids_and_message_ids_compare_by_bytes(t: Fixture) -> Checked {
    let names = ["a", "A", "a ", "ä", "a\u{308}", "ａ"];
    let rows = names.iter().map(|name| in_slot(event(name).message_id(*name))).collect();
    assert!(t.write(rows, at(0)).await?.iter().all(|one| one.fresh));
    assert_eq!(ids(&t.pending().await?), names);
    assert_eq!(t.record("A").await?.id, id("A"));
    assert!(t.find("Ä").await?.is_none());
    Ok(())
}

/// PBX-014
async fn times_are_whole_microseconds(t: Fixture) -> Checked {
    let now = at(0) + SignedDuration::from_nanos(1_999);
    let row = event("a").due(Duration::from_nanos(5_999)).expires(secs(1));
    t.write(vec![in_slot(row)], now).await?;
    let record = t.record("a").await?;
    let micros = |n| at(0) + SignedDuration::from_micros(n);
    assert_eq!(record.created_at, micros(1));
    assert_eq!(record.available_at, micros(6));
    assert_eq!(record.expires_at, Some(micros(1_000_001)));
    Ok(())
}

/// PBX-014
async fn rows_are_stamped_by_the_databases_clock(t: Fixture) -> Checked {
    let clock = || async {
        let fetch = Fetch { now: None, ..fetch(Scope::Due, at(0)) };
        t.native().fetch(fetch).await.map(|fetched| fetched.now)
    };
    let before = clock().await?;
    t.store.write(Write { rows: plain(&["a"]), now: None }).await?;
    let after = clock().await?;
    let created = t.record("a").await?.created_at;
    assert!((before..=after).contains(&created), "{before} {created} {after}");
    Ok(())
}

/// EVT-048
async fn values_are_never_read_as_statements(t: Fixture) -> Checked {
    let nasty = "'); DROP TABLE outbox_event; --";
    let row = Event::text(nasty, nasty).id(nasty).aggregate(nasty, nasty).group(nasty).message_id(nasty);
    t.write(vec![in_slot(row.tenant(nasty).correlation_id(nasty).header(nasty, nasty))], at(0)).await?;
    t.write(plain(&["%", "_", "\"", "\\", "{event}", "?1", "$1", ":now"]), at(0)).await?;
    let row = t.pending().await?.remove(0);
    let scope = Scope::Group { slot: row.slot, group: group(nasty), from: row.seq };
    assert_eq!(ids(&t.native().fetch(fetch(scope, at(0))).await?.rows), [nasty]);
    t.claim(ClaimFrom::Events, nasty, 1, at(0)).await?;
    assert_eq!(t.record(nasty).await?.locked_by.as_deref(), Some(nasty));
    let error = nasty.to_owned();
    t.apply(nasty, Change::Dead { error, counts: Counts::Made(1), blocks: Some(group(nasty)) }, at(1))
        .await?;
    let select =
        Select { event_type: Some(nasty.to_owned()), group: Some(group(nasty)), ..only(&[nasty, "%"]) };
    assert_eq!(t.store.admin().count(select.clone()).await?, 1);
    assert_eq!(t.replay(select, at(2)).await?, 1);
    assert!(t.change_group(nasty, GroupAction::Pause, at(3)).await?);
    assert_eq!(t.pending().await?.len(), 9);
    Ok(())
}

/// PBX-014
async fn numbers_and_durations_may_be_absurd(t: Fixture) -> Checked {
    let forever = Duration::MAX;
    let row = event("b").due(forever).expires(jiff::Timestamp::MIN);
    t.write(vec![in_slot(event("a").expires(forever)), in_slot(row)], at(0)).await?;
    let scope = Scope::Slots { slots: t.every_slot(), cursor: Cursor::default() };
    let most = Fetch { rows: usize::MAX, ..fetch(scope, at(0)) };
    assert_eq!(ids(&t.native().fetch(most.clone()).await?.rows), ["a"]);
    assert!(t.native().fetch(Fetch { skip_recent: forever, ..most }).await?.rows.is_empty());
    let all = Claim { lease: forever, ..claim(ClaimFrom::Events, "ann", usize::MAX, at(0)) };
    assert_eq!(ids(&t.native().claim(all.clone()).await?), ["a"]);
    assert!(t.native().claim(Claim { now: Some(at(1_000_000_000)), ..all }).await?.is_empty());
    t.apply("a", retry_later(forever), at(0)).await?;
    t.store
        .register(Register {
            node: node(1),
            label: String::new(),
            reads: ReadScope::Share,
            lease: forever,
            now: Some(at(0)),
        })
        .await?;
    assert!(t.heartbeat(1, at(1)).await?.next_due.is_some_and(|due| due > secs(1_000_000_000)));
    let purge = Purge { status: PurgeStatus::Any, older_than: forever, limit: usize::MAX, now: Some(at(9)) };
    assert_eq!(t.store.admin().purge(purge).await?, 0);
    let list = List { limit: usize::MAX, ..List::default() };
    assert_eq!(record_ids(&t.store.admin().list(list).await?), ["a", "b"]);
    assert_eq!(t.replay(Select::default(), jiff::Timestamp::MAX).await?, 0);
    Ok(())
}
