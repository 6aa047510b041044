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
