//! What must never be shown: passwords in URLs, payloads and header values in lists and errors.

use std::fs;

use crate::outbox::{Outbox, Ran, pillarbox, run};

const CANARY: &str = "s3cret-canary";

#[track_caller]
fn hides(ran: &Ran) {
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{ran:#?}");
}

/// PBX-023
#[test]
fn passwords_of_urls_are_never_shown() {
    let urls = [
        format!("postgres://user:{CANARY}@localhost:1/db"),
        format!("mysql://user:{CANARY}@localhost/db"),
        format!("nonsense://user:{CANARY}@host"),
        format!("sqlite://user:{CANARY}@host/x.db"),
        format!("nonsense user:{CANARY}@host"),
    ];
    for url in &urls {
        for command in [&["stats"][..], &["migrate"], &["migrate", "--print"], &["write", "--type", "t"]] {
            for json in [&[][..], &["--json"]] {
                let by_option = run(&[command, &["--url", url], json].concat());
                hides(&by_option);
                let by_variable =
                    Ran::of(pillarbox().args(command).args(json).env("PILLARBOX_DATABASE_URL", url));
                hides(&by_variable);
            }
        }
        hides(&run(&["stats", url]).exits(2));
        hides(&run(&[url]).exits(2));
        hides(&run(&["stats", &format!("--databse-url={url}")]).exits(2));
    }
}

/// PBX-023
#[test]
fn help_does_not_show_what_the_variable_holds() {
    let url = format!("postgres://user:{CANARY}@host/db");
    hides(&Ran::of(pillarbox().args(["stats", "--help"]).env("PILLARBOX_DATABASE_URL", url)));
}

/// PBX-023
#[test]
fn payloads_and_header_values_are_shown_only_when_one_event_is_asked_for() {
    let outbox = Outbox::new();
    let payload = format!("{{\"card\":\"{CANARY}\"}}");
    let header = format!("authorization={CANARY}");
    let content = ["--type", "t", "--group", "g", "--payload", &payload, "--header", &header];
    let pending = outbox.write(&content);
    let dead = outbox.dead(&content, "boom");
    for command in [
        &["events", "list"][..],
        &["dead", "list"],
        &["stats"],
        &["groups", "list"],
        &["events", "cancel", &pending, "--dry-run"],
        &["dead", "replay", "--all", "--dry-run"],
        &["dead", "show", &pending],
        &["dead", "discard", "--all"],
    ] {
        hides(&outbox.run(command));
        hides(&outbox.run(&[command, &["--json"]].concat()));
    }
    assert!(outbox.run(&["events", "show", &pending]).done().stdout.contains(CANARY));
    assert!(outbox.run(&["dead", "show", &dead, "--json"]).done().stdout.contains(CANARY));
}

/// PBX-023
#[test]
fn errors_of_a_write_do_not_show_what_was_to_be_written() {
    let outbox = Outbox::new();
    let large = outbox.path("large");
    fs::write(&large, CANARY.repeat(100_000)).unwrap();
    let large = format!("@{}", large.display());
    let nul_file = outbox.path("nul");
    fs::write(&nul_file, format!("{CANARY}\0")).unwrap();
    let nul = format!("@{}", nul_file.display());
    let payload = format!("{{\"card\":\"{CANARY}\"}}");
    let long_header = format!("{}={CANARY}", "x".repeat(300));
    for arguments in [
        &["--type", "t", "--payload", &large][..],
        &["--type", "t", "--payload", &nul],
        &["--type", "", "--payload", &payload],
        &["--type", "t", "--payload", &payload, "--table", "missing"],
        &["--type", "t", "--header", &long_header],
        &["--type", "t", "--header", CANARY],
        &["--type", "t", "--payload", "{\"card\":", CANARY],
    ] {
        for json in [&[][..], &["--json"]] {
            let ran = outbox.run(&[&["write"], arguments, json].concat());
            assert_ne!(ran.code, 0, "{arguments:?}");
            hides(&ran);
        }
    }
}
