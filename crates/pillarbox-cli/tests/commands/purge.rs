//! `purge`: old rows go, others stay.

use serde_json::json;

use crate::outbox::Outbox;

/// EVT-130
#[test]
fn rows_that_ended_before_the_cut_off_go_and_others_stay() {
    let outbox = Outbox::new();
    let done = outbox.delivered(&["--type", "t"]);
    let dead = outbox.dead(&["--type", "t"], "boom");
    let pending = outbox.write(&["--type", "t"]);
    let told = outbox.run(&["purge", "--older-than", "7d"]).done().stdout;
    assert_eq!(told, "purged 0 done events\n");
    let told = outbox.run(&["purge", "--older-than", "0s", "--dry-run", "--json"]).done().json();
    assert_eq!(told, json!({"action": "purge", "dry_run": true, "count": 1}));
    outbox.run(&["events", "show", &done]).done();

    assert_eq!(outbox.run(&["purge", "--older-than", "0s", "--yes"]).done().stdout, "purged 1 done event\n");
    outbox.run(&["events", "show", &done]).exits(3);
    outbox.run(&["events", "show", &dead]).done();
    let told =
        outbox.run(&["purge", "--older-than", "0s", "--status", "dead", "--yes", "--json"]).done().json();
    assert_eq!(told, json!({"action": "purge", "dry_run": false, "count": 1}));
    outbox.run(&["events", "show", &dead]).exits(3);
    outbox.run(&["events", "show", &pending]).done();
}
