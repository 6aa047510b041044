//! `stats`: the state of an outbox in one command.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::outbox::Outbox;

/// PBX-022, PBX-212
#[test]
fn one_command_shows_depth_age_rates_dead_by_type_nodes_and_blocked_groups() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t"]);
    outbox.write(&["--type", "t", "--due", "1h"]);
    outbox.delivered(&["--type", "t"]);
    outbox.dead(&["--type", "paid"], "boom");
    outbox.dead(&["--type", "paid"], "boom");
    outbox.dead_head("Account/42", "boom");
    outbox.run(&["groups", "pause", "other"]).done();
    outbox.join("host-1");
    outbox.run(&["queue", "enqueue", "--topic", "mail", "--payload", "{}"]).done();

    let stats = outbox.run(&["stats", "--json"]).done().json();
    assert_eq!(stats["store"]["kind"], "sqlite");
    assert_eq!(stats["events"], json!({"new": 2, "retry": 0, "done": 1, "dead": 3}));
    assert_eq!(stats["queue"], json!({"new": 1, "retry": 0, "done": 0, "dead": 0}));
    let pending = &stats["pending"];
    assert_eq!(
        (&pending["total"], &pending["delayed"], &pending["queued"]),
        (&json!(3), &json!(1), &json!(1))
    );
    assert!(stats["pending"]["oldest_ms"].is_u64());
    assert_eq!(
        (&stats["rates"]["written_last_minute"], &stats["rates"]["done_last_minute"]),
        (&json!(7), &json!(1))
    );
    assert_eq!(stats["rates"]["written_per_second"], 0.1);
    let dead = json!([{"type": "paid", "count": 2}, {"type": "order.placed", "count": 1}]);
    assert_eq!(stats["dead_by_type"], dead);
    assert_eq!(stats["nodes"][0]["label"], "host-1");
    assert_eq!(stats["slots"], json!({"free": 0}));
    assert_eq!((&stats["groups"]["blocked"], &stats["groups"]["paused"]), (&json!(1), &json!(1)));
    assert_eq!(stats["groups"]["held"].as_array().unwrap().len(), 2);

    let people = outbox.run(&["stats"]).done().stdout;
    for part in [
        "3 (2 new, 0 to retry, 1 delayed, 1 in the queue)",
        "7 in the last minute",
        "1 blocked, 1 paused",
        "host-1",
        "Account/42",
        "paid",
    ] {
        assert!(people.contains(part), "{part:?} is not in {people}");
    }
}

#[test]
fn an_empty_outbox_has_nothing_that_is_due() {
    let outbox = Outbox::new();
    let stats = outbox.run(&["stats", "--json"]).done().json();
    assert_eq!(stats["pending"]["oldest_ms"], json!(null));
    assert!(outbox.run(&["stats"]).done().stdout.contains("nothing is due"));
}

#[test]
fn watching_gives_one_document_a_line() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t"]);
    let mut watching = outbox
        .command(&["stats", "--watch", "--interval", "100ms", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for line in lines.take(2) {
        let stats: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(stats["events"]["new"], 1);
    }
    // Its reader is gone: it ends by itself, and in peace.
    assert!(watching.wait().unwrap().success());
}

#[test]
fn too_short_an_interval_is_refused() {
    let outbox = Outbox::new();
    outbox.run(&["stats", "--watch", "--interval", "1ms"]).exits(2).complains("shorter than 100ms");
}
