//! `migrate`: creating the tables, and printing how.

use crate::outbox::{Outbox, run};

#[test]
fn tables_are_made_once_and_a_second_run_is_harmless() {
    let outbox = Outbox::new();
    let url = format!("sqlite:{}", outbox.path("fresh.db").display());
    let first = outbox.run(&["migrate", "--url", &url, "--json"]).done().json();
    assert_eq!((&first["store"], &first["from"]), (&"sqlite".into(), &0.into()));
    assert!(first["to"].as_u64().unwrap() >= 1);
    let second = outbox.run(&["migrate", "--url", &url, "--json"]).done().json();
    assert_eq!(second["from"], first["to"]);
    assert!(outbox.run(&["migrate", "--url", &url]).done().stdout.starts_with("nothing to do"));
    outbox.run(&["stats", "--url", &url]).done();
}

#[test]
fn printing_needs_no_database() {
    let sql = run(&["migrate", "--print", "--url", "sqlite:no/such/folder/outbox.db"]).done().stdout;
    assert!(sql.to_lowercase().contains("create table"));
    assert!(sql.contains("outbox_event"));
    let other = run(&["migrate", "--print", "--url", "sqlite:x.db", "--table", "letters", "--json"]).done();
    assert!(other.json()["sql"].as_str().unwrap().contains("letters"));
    assert!(run(&["migrate", "--print", "--url", "sqlite:"]).done().stdout.contains("outbox_event"));
    run(&["migrate", "--print"]).exits(2);
}

/// PBX-103: those that are there, with what is in them, stay as they are.
#[test]
fn printed_sql_can_be_run_on_tables_that_are_there() {
    let outbox = Outbox::new();
    let sql = outbox.run(&["migrate", "--print"]).done().stdout;
    let id = outbox.write(&["--type", "t"]);
    outbox.run(&["groups", "pause", "g"]).done();
    for _ in 0..2 {
        outbox.execute(&sql);
    }
    assert_eq!(outbox.shown(&id)["status"], "new");
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json()[0]["group"], "g");
    assert!(outbox.run(&["migrate"]).done().stdout.starts_with("nothing to do"));
    // Those of a version that lacks a column are not taken for newer ones.
    outbox.execute(
        "ALTER TABLE outbox_event DROP COLUMN joined; DELETE FROM outbox_meta WHERE name = 'schema_step';
         UPDATE outbox_meta SET value = 1 WHERE name = 'schema_version'",
    );
    outbox.execute(&sql);
    let relay = ["relay", "--sink", "stdout:", "--until-empty"];
    outbox.run(&relay).exits(1).complains("the tables are of version 1");
    assert!(outbox.run(&["migrate"]).done().stdout.starts_with("upgraded the tables from version 1"));
    outbox.run(&relay).exits(0);
}

#[test]
fn printed_sql_makes_the_tables() {
    let outbox = Outbox::new();
    let sql = outbox.run(&["migrate", "--print"]).done().stdout;
    let file = outbox.path("by-hand.db");
    pillarbox_sqlite::rusqlite::Connection::open(&file).unwrap().execute_batch(&sql).unwrap();
    let url = format!("sqlite:{}", file.display());
    outbox.run(&["write", "--type", "t", "--url", &url]).done();
    outbox.run(&["stats", "--url", &url]).done();
}

/// PBX-092: tables that a later release has made are not touched, and the message says which versions differ.
#[test]
fn tables_of_a_later_version_are_refused_by_every_command() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t"]);
    outbox.execute("UPDATE outbox_meta SET value = 99 WHERE name = 'schema_version'");
    let told = "the tables are of version 99, this knows versions up to";
    outbox.run(&["migrate"]).exits(1).complains(told);
    outbox.run(&["relay", "--sink", "stdout:", "--until-empty"]).exits(1).complains(told);
}

/// PBX-092: columns that a later release has added, or an earlier one has not made, keep nobody from delivering.
#[test]
fn columns_of_another_release_disturb_nothing() {
    let outbox = Outbox::new();
    outbox.execute(
        "ALTER TABLE outbox_event ADD COLUMN later text; ALTER TABLE outbox_node ADD COLUMN later text;
         ALTER TABLE outbox_slot ADD COLUMN later text; ALTER TABLE outbox_node DROP COLUMN state",
    );
    outbox.write(&["--type", "t", "--group", "g", "--payload", "{}"]);
    let relayed = outbox.run(&["relay", "--sink", "stdout:", "--until-empty"]).exits(0);
    assert_eq!(relayed.stdout, "{}\n");
    outbox.run(&["stats"]).done();
    outbox.run(&["migrate"]).done();
    outbox.execute("SELECT state FROM outbox_node");
}
