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

fn items_by_hand(outbox: &Outbox) -> String {
    let file = outbox.path("foreign.db");
    let connection = pillarbox_sqlite::rusqlite::Connection::open(&file).unwrap();
    for table in ["outbox_events", "outbox_dispatch_jobs"] {
        let sql = format!(
            "CREATE TABLE {table} (id VARCHAR(13) PRIMARY KEY, type VARCHAR(20) NOT NULL, message_group VARCHAR(255),
             payload TEXT NOT NULL, status VARCHAR(20) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
             created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP, error_message TEXT);
             INSERT INTO {table} (id, type, payload, status, created_at)
             VALUES ('0000000000001', 'EVENT', '{{}}', 'PENDING', '2026-01-01 00:00:00')"
        );
        connection.execute_batch(&sql).unwrap();
    }
    format!("sqlite:{}", file.display())
}

/// RLY-072: the hint of a relay, followed to the letter, leads to deliveries and not to an empty outbox of our own.
#[test]
fn migrate_finds_the_tables_of_another_program() {
    let outbox = Outbox::new();
    let url = items_by_hand(&outbox);
    let relay = ["relay", "--url", &url, "--sink", "stdout:", "--until-empty"];
    run(&relay).exits(1).complains("run `pillarbox migrate --layout flowcatalyst --table outbox_events`");
    let migrated = run(&["migrate", "--url", &url]).exits(0).complains("layout flowcatalyst");
    assert_eq!(migrated.stdout, "created the tables, version 1\ncreated the tables, version 1\n");
    let relayed = run(&relay).exits(0).complains("delivered 2 events");
    assert_eq!(relayed.stdout, "{}\n{}\n");
}

/// RLY-072: a relay drains both tables of the layout, so whoever names it gets both.
#[test]
fn migrate_makes_both_tables_of_the_layout() {
    let outbox = Outbox::new();
    let url = format!("sqlite:{}", outbox.path("items.db").display());
    let migrate = ["migrate", "--url", &url, "--layout", "flowcatalyst"];
    let made = "created the tables, version 1\ncreated the tables, version 1\n";
    assert_eq!(run(&migrate).done().stdout, made);
    run(&["relay", "--url", &url, "--sink", "stdout:", "--until-empty"])
        .exits(0)
        .complains("nothing is left");
}

/// RLY-070, RLY-072: events in tables of another layout are told of, at the start and at the end.
#[test]
fn an_outbox_of_another_layout_is_told_of() {
    let outbox = Outbox::new();
    let url = items_by_hand(&outbox);
    run(&["migrate", "--url", &url, "--layout", "native", "--force"]).done();
    let relayed = run(&["relay", "--url", &url, "--sink", "stdout:", "--until-empty"]).exits(0);
    relayed
        .complains("there is an outbox of another layout beside this one")
        .complains("1 event still waits (1 in tables of another layout, which are not drained)");
}

/// RLY-072: what is printed can be run where some of it is there already.
#[test]
fn the_printed_statements_can_be_run_beside_tables_that_are_there() {
    let outbox = Outbox::new();
    let url = items_by_hand(&outbox);
    let sql = run(&["migrate", "--url", &url, "--layout", "flowcatalyst", "--print"]).done().stdout;
    let connection = pillarbox_sqlite::rusqlite::Connection::open(outbox.path("foreign.db")).unwrap();
    connection.execute_batch(&sql).unwrap();
    connection.execute_batch(&sql).unwrap();
    for table in ["outbox_events", "outbox_dispatch_jobs"] {
        run(&["stats", "--url", &url, "--layout", "flowcatalyst", "--table", table]).done();
    }
    let relayed = run(&["relay", "--url", &url, "--sink", "stdout:", "--until-empty"]).exits(0);
    relayed.complains("delivered 2 events");
}

/// PBX-102: nobody would deliver what is pending in the tables that are there.
#[test]
fn native_tables_are_not_made_beside_a_foreign_outbox_with_pending_events() {
    let outbox = Outbox::of_items();
    let native = ["migrate", "--layout", "native"];
    let id = outbox.write(&["--type", "EVENT", "--group", "order-1", "--payload", "{}"]);
    outbox
        .run(&native)
        .exits(1)
        .complains("the table outbox_events of the layout flowcatalyst has 1 pending event")
        .complains("--force");
    outbox.run(&["migrate", "--layout", "native", "--table", "letters"]).exits(1).complains("outbox_events");
    outbox.run(&["stats", "--layout", "native"]).exits(1);
    outbox.run(&["events", "cancel", &id]).done();
    outbox.run(&native).done();
    outbox.write(&["--type", "EVENT", "--layout", "flowcatalyst", "--payload", "{}"]);
    outbox.run(&native).done();
}

/// PBX-102
#[test]
fn native_tables_beside_a_foreign_outbox_can_be_asked_for() {
    let outbox = Outbox::of_items();
    outbox.run(&["migrate", "--layout", "flowcatalyst", "--table", "outbox_dispatch_jobs"]).done();
    outbox.write(&["--type", "DISPATCH_JOB", "--payload", "{}", "--table", "outbox_dispatch_jobs"]);
    outbox.run(&["migrate", "--layout", "native"]).exits(1).complains("outbox_dispatch_jobs");
    outbox.run(&["migrate", "--layout", "native", "--force"]).done();
    outbox.run(&["stats", "--layout", "native"]).done();
}
