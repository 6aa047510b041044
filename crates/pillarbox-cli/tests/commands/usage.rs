//! Wrong usage: exit code 2, the field and its form named, in both forms.

use crate::outbox::{Outbox, run};

#[test]
fn bad_values_of_every_option_are_named_with_their_form() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["purge", "--older-than", "5x"], &["--older-than", "500ms, 30s, 5m, 2h or 7d"]),
        (&["purge", "--older-than", "-5s"], &["--older-than"]),
        (&["purge", "--older-than", "99999999999d"], &["--older-than", "36500d"]),
        (&["purge", "--older-than", "1d", "--status", "new"], &["--status", "done, dead"]),
        (&["purge"], &["--older-than"]),
        (&["write"], &["--type"]),
        (&["write", "--type", "t", "--due", "soon"], &["--due", "RFC 3339"]),
        (&["write", "--type", "t", "--expires", "2030-01-01"], &["--expires", "RFC 3339"]),
        (&["write", "--type", "t", "--count", "0"], &["--count", "1..="]),
        (&["write", "--type", "t", "--count", "many"], &["--count"]),
        (&["events", "list", "--status", "gone"], &["--status", "new, retry, pending, done, dead"]),
        (&["events", "list", "--limit", "0"], &["--limit", "1..="]),
        (&["events", "list", "--order", "random"], &["--order", "oldest, newest"]),
        (&["events", "show"], &["<ID>"]),
        (&["events", "cancel"], &["<ID>"]),
        (&["dead", "show"], &["<ID>"]),
        (&["dead", "replay", "x", "--all"], &["--all"]),
        (&["dead", "list", "--all", "--limit", "3"], &["--all"]),
        (&["groups", "pause"], &["<GROUP>"]),
        (&["groups", "resume"], &["<GROUP>"]),
        (&["groups", "skip", "g", "--all"], &["--all"]),
        (&["stats", "--watch", "--interval", "1"], &["--interval", "500ms"]),
        (&["stats", "--interval", "1s"], &["--watch"]),
        (&["stats", "--layout", "other"], &["--layout", "native, flowcatalyst"]),
        (&["completions", "tcl"], &["<SHELL>", "bash"]),
        (&["demo", "--events", "0"], &["--events", "50..="]),
        (&["demo", "--seed", "x"], &["--seed"]),
        (&["demo", "--keep", "--dir", "x"], &["--dir"]),
    ];
    for (arguments, parts) in cases {
        let people = run(arguments).exits(2);
        let programs = run(&[*arguments, &["--json"]].concat()).exits(2);
        assert_eq!(programs.error()["kind"], "usage");
        for part in *parts {
            assert!(people.stderr.contains(part), "{part:?} is not in {people:#?}");
            assert!(programs.stderr.contains(part), "{part:?} is not in {programs:#?}");
        }
        assert_eq!((people.stdout, programs.stdout), (String::new(), String::new()));
    }
}

#[test]
fn bad_fields_of_events_are_named_with_their_bound() {
    let outbox = Outbox::new();
    let long = "x".repeat(300);
    let cases: &[(&[&str], &str)] = &[
        (&["--type", ""], "event type is empty"),
        (&["--type", &long], "event type is 300 characters long, at most 255 are allowed"),
        (&["--type", "a\nb"], "event type holds a control character"),
        (&["--type", "t", "--aggregate-type", &long], "aggregate type is 300 characters long, at most 64"),
        (&["--type", "t", "--aggregate-id", &long], "aggregate id is 300 characters long, at most 128"),
        (&["--type", "t", "--group", &long], "message group is 300 characters long, at most 255"),
        (&["--type", "t", "--group", ""], "message group is empty"),
        (&["--type", "t", "--tenant", &long], "tenant id is 300 characters long, at most 64"),
        (&["--type", "t", "--message-id", &long], "message id is 300 characters long, at most 255"),
        (&["--type", "t", "--correlation-id", &long], "correlation id is 300 characters long, at most 255"),
        (&["--type", "t", "--header", "no-value"], "--header has no `=`"),
        (&["--type", "t", "--header", "=v"], "header name is empty"),
        (&["--type", "t", "--payload", "@missing.json"], "\"missing.json\" can't be read"),
        (&["--type", "t", "--payload", "@."], "can't be read"),
        (
            &["--type", "t", "--message-id", "m", "--count", "2"],
            "--count and --message-id exclude each other",
        ),
    ];
    for (arguments, message) in cases {
        let ran = outbox.run(&[&["write"], *arguments].concat()).exits(2).complains(message);
        assert_eq!(ran.stdout, "");
    }
    assert_eq!(outbox.run(&["events", "list", "--json"]).done().json(), serde_json::json!([]));
}

#[test]
fn unknown_commands_and_options_are_wrong_usage() {
    for arguments in
        [&["frobnicate"][..], &["stats", "--frobnicate"], &["events", "frobnicate"], &[], &["events"]]
    {
        run(arguments).exits(2);
    }
    run(&["doctor"]).exits(2).complains("unrecognized subcommand");
}

#[test]
fn a_misspelt_option_has_the_right_one_as_its_hint() {
    let error = run(&["stats", "--databse-url", "x", "--json"]).exits(2).error();
    assert!(error["hint"].as_str().unwrap().contains("--database-url"), "{error}");
}

#[test]
fn bulk_changes_need_a_filter_and_a_yes() {
    let outbox = Outbox::new();
    outbox.dead(&["--type", "t"], "boom");
    for verb in ["replay", "discard"] {
        outbox.run(&["dead", verb]).exits(2).complains("--type, --aggregate-type or --all");
        for filter in [&["--all"][..], &["--type", "t"], &["--aggregate-type", "__GLOBAL__"]] {
            let arguments = [&["dead", verb], filter].concat();
            outbox.run(&arguments).exits(2).complains("add --yes").complains("1 dead event");
        }
    }
    outbox.run(&["purge", "--older-than", "0s", "--status", "dead"]).exits(2).complains("add --yes");
    outbox.dead_head("g", "boom");
    outbox.run(&["groups", "unblock", "--all"]).exits(2).complains("add --yes");
    assert_eq!(outbox.run(&["dead", "list", "--json"]).done().json().as_array().unwrap().len(), 2);
}
