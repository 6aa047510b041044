//! `write`: events as they are asked for, byte for byte.

use std::fs;

use serde_json::json;

use crate::outbox::Outbox;

#[test]
fn every_field_is_kept() {
    let outbox = Outbox::new();
    let id = outbox.write(&[
        "--type",
        "order.placed",
        "--payload",
        "{\"b\":1,  \"a\":2}",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "7",
        "--group",
        "lane-1",
        "--tenant",
        "acme",
        "--header",
        "source=cron",
        "--header",
        "note=a=b",
        "--expires",
        "2999-01-01T00:00:00Z",
        "--message-id",
        "m-1",
        "--correlation-id",
        "c-1",
    ]);
    let shown = outbox.shown(&id);
    for (key, value) in [
        ("id", json!(id)),
        ("status", json!("new")),
        ("type", json!("order.placed")),
        ("aggregate_type", json!("Order")),
        ("aggregate_id", json!("7")),
        ("group", json!("lane-1")),
        ("tenant", json!("acme")),
        ("message_id", json!("m-1")),
        ("correlation_id", json!("c-1")),
        ("attempts", json!(0)),
        ("headers", json!({"source": "cron", "note": "a=b"})),
        ("payload", json!({"text": "{\"b\":1,  \"a\":2}"})),
        ("expires_at", json!("2999-01-01T00:00:00Z")),
        ("failures", json!([])),
        ("malformed", json!(null)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
}

#[test]
fn payloads_come_from_files_and_standard_input_and_are_not_judged() {
    let outbox = Outbox::new();
    let file = outbox.path("payload");
    let from = format!("@{}", file.display());
    fs::write(&file, "no json at all\n").unwrap();
    let id = outbox.write(&["--type", "t", "--payload", &from]);
    assert_eq!(outbox.shown(&id)["payload"]["text"], "no json at all\n");

    fs::write(&file, [0xff, 0x00, 0x01]).unwrap();
    let id = outbox.write(&["--type", "t", "--payload", &from]);
    assert_eq!(outbox.shown(&id)["payload"]["base64"], "/wAB");

    let ran = outbox.run_with_input(&["write", "--type", "t", "--payload", "@-"], b"[1]").done();
    assert_eq!(outbox.shown(ran.stdout.trim_end())["payload"]["text"], "[1]");
    let id = outbox.write(&["--type", "t", "--payload", "-5"]);
    assert_eq!(outbox.shown(&id)["payload"]["text"], "-5");
    let id = outbox.write(&["--type", "t"]);
    assert_eq!(outbox.shown(&id)["payload"]["text"], "{}");
}

#[test]
fn payloads_over_the_limit_are_refused() {
    let outbox = Outbox::new();
    let file = outbox.path("large");
    fs::write(&file, "x".repeat(1_048_577)).unwrap();
    let arguments = ["write", "--type", "t", "--payload", &format!("@{}", file.display())];
    outbox.run(&arguments).exits(2).complains("1048576");
}

#[test]
fn delayed_events_wait_for_their_time() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t", "--due", "2h"]);
    outbox.write(&["--type", "t", "--due", "2999-01-01T00:00:00Z"]);
    outbox.write(&["--type", "t", "--due", "2020-01-01T00:00:00Z"]);
    let stats = outbox.run(&["stats", "--json"]).done().json();
    assert_eq!((&stats["pending"]["total"], &stats["pending"]["delayed"]), (&json!(3), &json!(2)));
}

#[test]
fn many_events_are_written_in_batches_and_all_ids_are_printed() {
    let outbox = Outbox::new();
    let lines = outbox.run(&["write", "--type", "t", "--count", "1201"]).done().stdout;
    let mut ids: Vec<&str> = lines.lines().collect();
    ids.dedup();
    assert_eq!(ids.len(), 1_201);
    let array = outbox.run(&["write", "--type", "t", "--count", "501", "--json"]).done().json();
    assert_eq!(array.as_array().unwrap().len(), 501);
    assert_eq!(outbox.run(&["stats", "--json"]).done().json()["events"]["new"], 1_702);
}

#[test]
fn a_message_id_that_is_there_already_is_the_same_event() {
    let outbox = Outbox::new();
    let first = outbox.write(&["--type", "t", "--message-id", "once"]);
    let again = outbox.run(&["write", "--type", "t", "--message-id", "once"]).exits(0);
    assert_eq!(again.stdout.trim_end(), first);
    assert!(again.stderr.contains("there already"));
    let programs = outbox.run(&["write", "--type", "t", "--message-id", "once", "--json"]).done();
    assert_eq!(programs.json(), json!([first]));
}
