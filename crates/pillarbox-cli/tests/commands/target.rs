//! Naming the outbox: the option, the variable, the file; other tables; stores that are not there.

use std::fs;

use crate::outbox::{Outbox, Ran, pillarbox, run};

#[test]
fn the_option_counts_more_than_the_variable_and_both_work() {
    let (one, other) = (Outbox::new(), Outbox::new());
    let id = one.write(&["--type", "t"]);
    assert_eq!(one.shown(&id)["id"], id.as_str());
    other.run(&["events", "show", &id]).exits(3);
    for option in ["--database-url", "--url"] {
        other.run(&["events", "show", &id, option, &one.url()]).done();
        Ran::of(pillarbox().args([option, &one.url(), "events", "show", &id])).done();
    }
}

#[test]
fn the_url_can_be_in_a_file() {
    let outbox = Outbox::new();
    let file = outbox.path("url");
    fs::write(&file, format!("{}\n", outbox.url())).unwrap();
    let with_file = |name| {
        let mut command = pillarbox();
        command.arg("stats").env("PILLARBOX_DATABASE_URL_FILE", outbox.path(name));
        command
    };
    Ran::of(&mut with_file("url")).done();
    Ran::of(&mut with_file("missing")).exits(2).complains("PILLARBOX_DATABASE_URL_FILE");
    let both = Ran::of(with_file("url").env("PILLARBOX_DATABASE_URL", outbox.url()));
    both.exits(2).complains("both set");
}

#[test]
fn no_url_and_unknown_stores_are_wrong_configuration() {
    run(&["stats"]).exits(2).complains("PILLARBOX_DATABASE_URL");
    for url in ["", "  ", "orders.db", "nonsense://x", "sqlserver://localhost/x"] {
        run(&["stats", "--url", url]).exits(2);
    }
    run(&["stats", "--url", "sqlite:x.db", "--layout", "sideways"]).exits(2);
}

#[test]
fn tables_have_the_names_that_are_asked_for_and_bad_names_are_refused() {
    let outbox = Outbox::new();
    outbox.run(&["migrate", "--table", "letters"]).done();
    let id = outbox.run(&["write", "--type", "t", "--table", "letters"]).done().stdout;
    outbox.run(&["events", "show", id.trim_end(), "--table", "letters"]).done();
    outbox.run(&["events", "show", id.trim_end()]).exits(3);
    for bad in ["a b", "x;drop table y", "1a", ""] {
        outbox.run(&["stats", "--table", bad]).exits(2).complains("table name");
    }
}

#[test]
fn a_database_that_is_not_there_is_unavailable_and_is_not_made() {
    let outbox = Outbox::new();
    let missing = outbox.path("missing.db");
    let url = format!("sqlite:{}", missing.display());
    for command in [&["stats"][..], &["events", "list"], &["dead", "list"], &["write", "--type", "t"]] {
        outbox.run(&[command, &["--url", &url]].concat()).exits(5);
        assert!(!missing.exists(), "{command:?}");
    }
    let folder = format!("sqlite:{}", outbox.path("no/such/folder.db").display());
    let error = outbox.run(&["migrate", "--url", &folder, "--json"]).exits(5).error();
    assert_eq!(error["kind"], "unavailable");
}

#[test]
fn a_database_without_tables_asks_for_a_migration() {
    let outbox = Outbox::new();
    let error = outbox.run(&["stats", "--table", "other", "--json"]).exits(1).error();
    assert_eq!(error["kind"], "schema");
    assert!(error["hint"].as_str().unwrap().contains("pillarbox migrate"));
}

#[test]
fn a_file_that_is_no_database_fails() {
    let outbox = Outbox::new();
    let text = outbox.path("text.db");
    fs::write(
        &text,
        "this is a letter, not a database, and it is long enough to be read as a header\n".repeat(20),
    )
    .unwrap();
    let ran = outbox.run(&["stats", "--url", &format!("sqlite:{}", text.display())]);
    assert!([1, 5].contains(&ran.code), "{ran:#?}");
}
