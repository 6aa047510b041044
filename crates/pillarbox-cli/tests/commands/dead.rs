//! `dead`: looking, replaying, discarding; one, some, all.

use serde_json::json;

use crate::outbox::Outbox;

/// EVT-140
#[test]
fn dead_events_are_listed_oldest_first_by_type_and_aggregate_type() {
    let outbox = Outbox::new();
    let first = outbox.dead(&["--type", "placed", "--aggregate-type", "Order"], "first error");
    let second = outbox.dead(&["--type", "paid", "--aggregate-type", "Order"], "second error");
    let third = outbox.dead(&["--type", "paid"], "third error");
    outbox.write(&["--type", "paid"]);
    let list = |options: &[&str]| {
        let list = outbox.run(&[&["dead", "list", "--json"], options].concat()).exits(0).json();
        let ids = list.as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), [first.clone(), second.clone(), third.clone()]);
    assert_eq!(list(&["--type", "paid"]), [second.clone(), third.clone()]);
    assert_eq!(list(&["--type", "paid", "--aggregate-type", "Order"]), [second.as_str()]);
    assert_eq!(list(&["--limit", "1"]), [first.as_str()]);
    assert_eq!(list(&["--all", "--order", "newest"]), [third, second, first.clone()]);

    let people = outbox.run(&["dead", "list", "--limit", "1"]).exits(0);
    assert!(people.stdout.contains(&first) && people.stdout.contains("first error"));
    assert_eq!(people.stderr, "1 of 3 dead events\n");
}

#[test]
fn only_dead_events_are_shown() {
    let outbox = Outbox::new();
    let dead = outbox.dead(&["--type", "t"], "boom");
    let pending = outbox.write(&["--type", "t"]);
    let shown = outbox.run(&["dead", "show", &dead, "--json"]).done().json();
    assert_eq!((&shown["status"], &shown["last_error"]), (&json!("dead"), &json!("boom")));
    outbox.run(&["dead", "show", &pending]).exits(3).complains("is not dead but new");
    outbox.run(&["dead", "show", "nope"]).exits(3);
}

/// EVT-141
#[test]
fn one_is_replayed_with_its_attempts_reset_and_it_is_told_whether_it_was() {
    let outbox = Outbox::new();
    let id = outbox.dead(&["--type", "t"], "boom");
    let told = outbox.run(&["dead", "replay", &id, "--json"]).done().json();
    assert_eq!(told, json!({"action": "replay", "dry_run": false, "count": 1}));
    let shown = outbox.shown(&id);
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("new"), &json!(0)));
    outbox.run(&["dead", "replay", &id]).exits(3).complains("is not dead but new");
    outbox.run(&["dead", "replay", "nope"]).exits(3);
    assert_eq!(outbox.audit(), [("cli/tester".to_owned(), "replay".to_owned(), id)]);
}

#[test]
fn a_missing_one_among_several_changes_none() {
    let outbox = Outbox::new();
    let id = outbox.dead(&["--type", "t"], "boom");
    outbox.run(&["dead", "replay", &id, "nope"]).exits(3);
    assert_eq!(outbox.shown(&id)["status"], "dead");
}

/// EVT-142
#[test]
fn all_that_match_are_replayed_in_batches_and_counted() {
    let outbox = Outbox::new();
    for _ in 0..3 {
        outbox.dead(&["--type", "paid"], "boom");
    }
    let other = outbox.dead(&["--type", "placed"], "boom");
    let told = outbox.run(&["dead", "replay", "--type", "paid", "--yes"]).done().stdout;
    assert_eq!(told, "replayed 3 dead events\n");
    assert_eq!(outbox.shown(&other)["status"], "dead");
    let told = outbox.run(&["dead", "replay", "--all", "--yes", "--json"]).done().json();
    assert_eq!(told["count"], 1);
    assert_eq!(outbox.run(&["dead", "replay", "--all"]).done().stdout, "replayed 0 dead events\n");
}

/// EVT-143
#[test]
fn dead_events_are_counted_and_a_database_error_is_never_a_zero() {
    let outbox = Outbox::new();
    outbox.dead(&["--type", "paid"], "boom");
    outbox.dead(&["--type", "placed"], "boom");
    let count = |filter: &[&str]| {
        let told = outbox.run(&[&["dead", "replay", "--dry-run", "--json"], filter].concat()).done().json();
        assert_eq!(told["dry_run"], true);
        told["count"].as_u64().unwrap()
    };
    assert_eq!((count(&["--all"]), count(&["--type", "paid"]), count(&["--type", "x"])), (2, 1, 0));
    for verb in ["list", "replay", "discard"] {
        let arguments = ["dead", verb, "--type", "paid", "--table", "missing"];
        let failed = outbox.run(&arguments).exits(1).complains("pillarbox migrate");
        assert_eq!(failed.stdout, "");
    }
}

#[test]
fn discarded_events_are_gone() {
    let outbox = Outbox::new();
    let named = outbox.dead(&["--type", "t"], "boom");
    let matching = outbox.dead(&["--type", "t"], "boom");
    assert_eq!(outbox.run(&["dead", "discard", &named]).done().stdout, "discarded 1 dead event\n");
    outbox.run(&["events", "show", &named]).exits(3);
    outbox.run(&["dead", "discard", "--aggregate-type", "__GLOBAL__", "--yes"]).done();
    outbox.run(&["events", "show", &matching]).exits(3);
}

#[test]
fn replaying_the_head_of_a_blocked_group_frees_it() {
    let outbox = Outbox::new();
    let head = outbox.dead_head("Account/42", "boom");
    outbox.run(&["dead", "replay", &head]).done();
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json(), json!([]));
}

/// PBX-173: whoever comes second is told so.
#[test]
fn one_of_two_racing_replays_wins_and_the_others_are_told() {
    let outbox = Outbox::new();
    let id = outbox.dead(&["--type", "t"], "boom");
    let replays: Vec<_> = (0..4)
        .map(|_| {
            let mut command = outbox.command(&["dead", "replay", &id, "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut codes: Vec<_> =
        replays.into_iter().map(|replay| replay.wait_with_output().unwrap().status.code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 3, 3, 3]);
}
