//! `events`: lists, one event, taking events back.

use std::time::Duration;

use pillarbox::port::{Change, Counts, Wait};
use serde_json::{Value, json};

use crate::outbox::Outbox;

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect()
}

#[test]
fn an_empty_list_is_done() {
    let outbox = Outbox::new();
    assert_eq!(outbox.run(&["events", "list"]).done().stdout, "no events\n");
    assert_eq!(outbox.run(&["events", "list", "--json"]).done().json(), json!([]));
}

#[test]
fn lists_are_filtered_ordered_and_limited() {
    let outbox = Outbox::new();
    let placed = outbox.write(&["--type", "placed", "--group", "a"]);
    let paid = outbox.write(&["--type", "paid", "--aggregate-type", "Order", "--aggregate-id", "7"]);
    let done = outbox.delivered(&["--type", "placed"]);
    let dead = outbox.dead(&["--type", "paid"], "boom");
    let list =
        |options: &[&str]| outbox.run(&[&["events", "list", "--json"], options].concat()).done().json();
    assert_eq!(ids(&list(&[])), [&dead, &done, &paid, &placed]);
    assert_eq!(ids(&list(&["--order", "oldest", "--limit", "2"])), [&placed, &paid]);
    assert_eq!(ids(&list(&["--status", "pending"])), [&paid, &placed]);
    assert_eq!(ids(&list(&["--status", "new", "--type", "paid"])), [&paid]);
    assert_eq!(ids(&list(&["--status", "done"])), [&done]);
    assert_eq!(ids(&list(&["--status", "dead"])), [&dead]);
    assert_eq!(ids(&list(&["--group", "Order/7"])), [&paid]);
    assert_eq!(ids(&list(&["--status", "retry"])), [""; 0]);
}

#[test]
fn long_lists_are_read_page_by_page() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t", "--count", "250"]);
    let list = outbox.run(&["events", "list", "--limit", "240", "--json"]).done().json();
    let mut seen = ids(&list);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 240);
}

#[test]
fn people_get_a_table_that_lines_up() {
    let outbox = Outbox::new();
    let id = outbox.write(&["--type", "order.placed", "--group", "Account/42"]);
    let table = outbox.run(&["events", "list"]).done().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with("WRITTEN"), "{table}");
    assert!(lines[1].starts_with(&format!("{id}  new     order.placed  Account/42 ")), "{table}");
    assert!(!table.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn one_event_is_shown_whole() {
    let outbox = Outbox::new();
    let id = outbox.write(&["--type", "t", "--payload", "{\"n\":1}", "--header", "h=v"]);
    let retry = Change::Retry {
        delay: Duration::ZERO,
        error: "timed out".to_owned(),
        counts: Counts::Made(1),
        wait: Wait::InPlace,
    };
    outbox.settle(&id, retry);
    let shown = outbox.shown(&id);
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("retry"), &json!(1)));
    assert_eq!(shown["failures"][0]["error"], "timed out");
    let people = outbox.run(&["events", "show", &id]).done().stdout;
    for part in [&id, "retry", "h  v", "timed out", "payload (text, 7 bytes)\n{\"n\":1}"] {
        assert!(people.contains(part), "{part:?} is not in {people}");
    }
}

#[test]
fn an_event_that_is_not_there_has_its_own_exit_code() {
    let outbox = Outbox::new();
    outbox.run(&["events", "show", "nope"]).exits(3).complains("there is no event \"nope\"");
    let error = outbox.run(&["events", "cancel", "nope", "--json"]).exits(3).error();
    assert_eq!(error["kind"], "not-found");
}

/// PBX-027
#[test]
fn pending_events_are_taken_back_and_others_are_not() {
    let outbox = Outbox::new();
    let pending = outbox.write(&["--type", "t"]);
    let done = outbox.delivered(&["--type", "t"]);
    let told = outbox.run(&["events", "cancel", &pending, "--dry-run"]).done().stdout;
    assert_eq!(told, format!("would cancel {pending}\n"));
    outbox.run(&["events", "show", &pending]).done();

    let cancelled = outbox.run(&["events", "cancel", &pending, "--json"]).done().json();
    assert_eq!(cancelled, json!({"action": "cancel", "dry_run": false, "events": [pending]}));
    outbox.run(&["events", "show", &pending]).exits(3);
    outbox.run(&["events", "cancel", &done]).exits(1).complains("is done");
    outbox.run(&["events", "show", &done]).done();
    assert_eq!(outbox.audit(), [("cli/tester".to_owned(), "cancel".to_owned(), pending)]);
}

#[test]
fn rows_of_others_can_not_steer_the_terminal() {
    let outbox = Outbox::new();
    let id = outbox.dead(&["--type", "t", "--payload", "a\u{1b}[2Jb\u{9b}c"], "bad \u{1b}]0;title\u{7}");
    for command in [&["events", "show", &id][..], &["dead", "list"], &["events", "list"]] {
        let shown = outbox.run(command).done().stdout;
        assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{7}']), "{shown:?}");
    }
}
