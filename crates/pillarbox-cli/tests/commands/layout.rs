//! The flowcatalyst layout: made, found, written to, looked at and operated.

use crate::outbox::{Outbox, run};

/// RLY-004, RLY-005, RLY-052
#[test]
fn the_layout_is_found_from_its_tables_and_events_get_tsids() {
    let outbox = Outbox::of_items();
    let id = outbox.write(&["--type", "EVENT", "--group", "order-1", "--payload", "{\"n\":1}"]);
    assert_eq!(id.len(), 13);
    let shown = outbox.shown(&id);
    assert_eq!((shown["type"].as_str(), shown["group"].as_str()), (Some("EVENT"), Some("order-1")));
    let listed = outbox.run(&["events", "list", "--group", "order-1"]).done();
    assert!(listed.stdout.contains(&id));
    outbox.run(&["stats"]).done();
    outbox.run(&["groups", "pause", "order-1"]).done();
    assert!(outbox.run(&["groups", "list"]).done().stdout.contains("order-1"));
    outbox.run(&["nodes", "list"]).done();
    outbox.run(&["dead", "list"]).done();
    outbox.run(&["events", "cancel", &id]).done();
    outbox.run(&["purge", "--older-than", "7d", "--yes"]).done();
}

/// RLY-003, RLY-005
#[test]
fn what_the_layout_has_no_column_for_is_wrong_input_that_names_the_field() {
    let outbox = Outbox::of_items();
    outbox.run(&["write", "--type", "EVENT", "--header", "a=b"]).exits(2).complains("headers");
    outbox.run(&["write", "--type", "EVENT", "--due", "5m"]).exits(2).complains("due time");
    outbox.run(&["write", "--type", "order.placed"]).exits(2).complains("event type");
}

/// RLY-005, RLY-052
#[test]
fn dispatch_jobs_have_a_table_of_their_own() {
    let outbox = Outbox::of_items();
    let jobs = ["--layout", "flowcatalyst", "--table", "outbox_dispatch_jobs"];
    outbox.run(&[&["migrate"][..], &jobs].concat()).done();
    let write = |kind| [&["write", "--type", kind][..], &jobs].concat();
    outbox.run(&write("DISPATCH_JOB")).done();
    outbox.run(&write("EVENT")).exits(2).complains("DISPATCH_JOB");
    outbox.run(&["stats", "--table", "outbox_dispatch_jobs"]).done();
}

/// RLY-052
#[test]
fn the_statements_are_printed_without_a_database() {
    let printed =
        run(&["migrate", "--url", "postgres:", "--layout", "flowcatalyst", "--print"]).done().stdout;
    assert!(printed.contains("id VARCHAR(13) PRIMARY KEY") && printed.contains("outbox_events_node"));
}
