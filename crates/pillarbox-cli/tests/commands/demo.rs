//! `demo`: two real processes on one file, a crash, and nothing lost.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use crate::outbox::{Ran, pillarbox, run};

/// PBX-010, PBX-011, PBX-024, EVT-180
#[test]
fn nothing_is_lost_doubled_without_a_crash_or_out_of_order() {
    let folder = tempfile::TempDir::new().unwrap();
    let place = folder.path().join("demo");
    let place = place.to_str().unwrap();
    let told = run(&["demo", "--events", "200", "--seed", "7", "--dir", place, "--json"]).done().json();
    for (key, value) in [
        ("written", 200),
        ("delivered", 200),
        ("rolled_back", 8),
        ("lost", 0),
        ("order_violations", 0),
        ("phantoms", 0),
    ] {
        assert_eq!(told[key], value, "{key}: {told:#}");
    }
    assert!(told["retried"].as_u64().unwrap() > 0 && told["delivered_before_kill"].as_u64().unwrap() >= 60);
    assert!(told["dead"].as_u64().unwrap() > 0 && told["dead"] == told["replayed"], "{told:#}");

    let url = format!("sqlite:{}", told["database"].as_str().unwrap());
    let stats = run(&["stats", "--url", &url, "--json"]).done().json();
    assert_eq!(stats["events"], serde_json::json!({"new": 0, "retry": 0, "done": 200, "dead": 0}));
    assert_eq!(stats["groups"]["blocked"], 0);
    run(&["demo", "--dir", place]).exits(2).complains("already");
}

#[test]
fn people_are_told_what_happened_to_all_of_it() {
    let ran = run(&["demo"]).exits(0);
    assert!(ran.stdout.lines().any(|line| line == "lost 0"), "{ran:#?}");
    assert!(ran.stdout.lines().any(|line| line == "order violations 0"), "{ran:#?}");
    for part in ["worker-1 is killed", "the receiver is repaired", "all 2,000 orders are written"] {
        assert!(ran.stderr.contains(part), "{part:?} is not in {ran:#?}");
    }
}

/// By the shell: a small system has no program for it.
fn signal(child: &Child, name: &str) {
    let told = Command::new("sh").args(["-c", &format!("kill -s {name} {}", child.id())]).status();
    assert!(told.unwrap().success());
}

struct Serving {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    temporary: tempfile::TempDir,
}

/// A demo that stays up, once it has said this.
fn serving(until: &str) -> Serving {
    let temporary = tempfile::TempDir::new().unwrap();
    let mut command = pillarbox();
    command.args(["demo", "--events", "100", "--serve"]).env("TMPDIR", temporary.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(until) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended");
    }
    Serving { child, stderr, temporary }
}

#[test]
fn serving_goes_on_until_it_is_interrupted_and_leaves_nothing_behind() {
    for name in ["INT", "TERM"] {
        let Serving { mut child, mut stderr, temporary } = serving("pillarbox stats --watch");
        signal(&child, name);
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{stdout}{rest}");
        assert!(stdout.contains("\nlost 0\n"), "{stdout}{rest}");
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let Serving { mut child, mut stderr, temporary } = serving("worker-1");
    signal(&child, "INT");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest}");
    assert!(rest.ends_with("error: interrupted\n"), "{rest}");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn workers_end_with_a_demo_that_is_killed() {
    let Serving { mut child, mut stderr, temporary: _temporary } = serving("pillarbox stats --watch");
    child.kill().unwrap();
    child.wait().unwrap();
    // The workers share its standard error: this comes to an end when the last of them has.
    stderr.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_worker_without_its_demo_is_told_what_it_lacks() {
    Ran::of(pillarbox().arg("demo-worker")).exits(2).complains("--database");
}
