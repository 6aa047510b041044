//! `groups`: held back, let go.

use serde_json::json;

use crate::outbox::Outbox;

#[test]
fn a_paused_group_is_listed_and_resumed() {
    let outbox = Outbox::new();
    assert_eq!(outbox.run(&["groups", "list"]).done().stdout, "no group is held back\n");
    let paused = outbox.run(&["groups", "pause", "Account/42", "--reason", "under review", "--json"]);
    assert_eq!(paused.done().json(), json!({"action": "pause", "dry_run": false, "groups": ["Account/42"]}));
    let listed = outbox.run(&["groups", "list", "--json"]).done().json();
    assert_eq!(listed[0]["group"], "Account/42");
    assert_eq!(listed[0]["state"], "paused");
    assert_eq!(listed[0]["reason"], "under review");
    assert_eq!(listed[0]["by"], "cli/tester");
    assert!(listed[0]["since"].is_string());
    assert_eq!(outbox.run(&["groups", "list", "other", "--json"]).done().json(), json!([]));
    assert_eq!(outbox.run(&["groups", "pause", "Account/42"]).done().stdout, "nothing to change\n");

    assert_eq!(outbox.run(&["groups", "resume", "Account/42"]).done().stdout, "resumed Account/42\n");
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json(), json!([]));
}

#[test]
fn a_group_that_is_not_held_back_is_not_there() {
    let outbox = Outbox::new();
    outbox.run(&["groups", "pause", "paused"]).done();
    outbox.run(&["groups", "resume", "other"]).exits(3).complains("\"other\" is not paused");
    outbox.run(&["groups", "unblock", "paused"]).exits(3).complains("is not blocked");
    outbox.run(&["groups", "skip", "other"]).exits(3);
}

#[test]
fn unblocking_brings_the_head_back_and_skipping_leaves_it_dead() {
    let outbox = Outbox::new();
    let unblocked = outbox.dead_head("a", "boom");
    let skipped = outbox.dead_head("b", "boom");
    let listed = outbox.run(&["groups", "list"]).done().stdout;
    assert!(listed.contains("blocked") && listed.contains(&unblocked) && listed.contains("boom"), "{listed}");

    outbox.run(&["groups", "unblock", "a"]).done();
    let told = outbox.run(&["groups", "skip", "b"]).done().stdout;
    assert_eq!(told, "skipped the dead head of b\n");
    assert_eq!(outbox.shown(&unblocked)["status"], "new");
    assert_eq!(outbox.shown(&skipped)["status"], "dead");
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json(), json!([]));
}

#[test]
fn all_groups_are_let_go_at_once_after_a_yes() {
    let outbox = Outbox::new();
    outbox.dead_head("a", "boom");
    outbox.dead_head("b", "boom");
    let told = outbox.run(&["groups", "unblock", "--all", "--dry-run", "--json"]).done().json();
    assert_eq!(told, json!({"action": "unblock", "dry_run": true, "groups": ["a", "b"]}));
    let told = outbox.run(&["groups", "unblock", "--all", "--yes"]).done().stdout;
    assert_eq!(told, "unblocked 2 groups\n");
    assert_eq!(outbox.run(&["groups", "resume", "--all"]).done().stdout, "nothing to change\n");
}

/// PBX-100: more groups than a page has.
#[test]
fn groups_are_listed_and_let_go_page_by_page() {
    let outbox = Outbox::new();
    let groups: Vec<String> = (0..=1_000).map(|n| format!("g{n:04}")).collect();
    let all = |command: &[&'static str]| {
        let given: Vec<&str> = command.iter().copied().chain(groups.iter().map(String::as_str)).collect();
        outbox.run(&given).done().stdout
    };
    assert_eq!(all(&["groups", "pause"]), "paused 1,001 groups\n");
    let listed = outbox.run(&["groups", "list", "--json"]).done().json();
    let listed: Vec<_> = listed.as_array().unwrap().iter().map(|held| held["group"].clone()).collect();
    assert_eq!(listed, groups);
    let shown = outbox.run(&["groups", "list"]).done().stdout;
    assert!(groups.iter().all(|group| shown.contains(group.as_str())), "{shown}");
    let one = outbox.run(&["groups", "list", "g1000", "--json"]).done().json();
    assert_eq!(one.as_array().unwrap().len(), 1);
    let told = outbox.run(&["groups", "resume", "--all", "--yes"]).done().stdout;
    assert_eq!(told, "resumed 1,001 groups\n");
    assert_eq!(outbox.run(&["groups", "list"]).done().stdout, "no group is held back\n");
}

/// PBX-101
#[test]
fn a_name_that_no_group_can_have_is_not_paused() {
    let outbox = Outbox::new();
    outbox.run(&["groups", "pause", &"x".repeat(256)]).exits(2).complains("255");
    outbox.run(&["groups", "pause", "a\nb"]).exits(2).complains("control character");
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json(), json!([]));
}
