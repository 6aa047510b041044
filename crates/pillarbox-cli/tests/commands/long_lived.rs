//! `queue work --protocol jsonl`: long-lived processes that read messages and write verdicts.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::outbox::Outbox;
use crate::work::{UNTIL_EMPTY, Working};

const PROTOCOL: &str = include_str!("../../../../docs/reference/worker-protocol.md");
/// The item of the line that `read` has put into `line`.
const ITEM: &str = "item=${line#'{\"item\":\"'}; item=${item%%'\"'*}";

/// The example in this language, as the reference page shows it.
fn example(language: &str) -> &'static str {
    let (_, after) = PROTOCOL.split_once(&format!("```{language}\n")).unwrap();
    after.split_once("```").unwrap().0
}

fn ack(item: &str) -> String {
    format!("echo '{{\"item\":\"'{item}'\",\"verdict\":\"ack\"}}'")
}

impl Outbox {
    /// Runs long-lived workers to their end; the reports, the counts and standard error.
    #[track_caller]
    fn work_lines(&self, script: &str, options: &[&str]) -> (Vec<Value>, Value) {
        self.work(script, &[&["--protocol", "jsonl"][..], UNTIL_EMPTY, options].concat())
    }

    fn write_script(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn failures(&self, id: &str) -> Vec<String> {
        let shown = self.shown(id);
        let failures = shown["failures"].as_array().unwrap().iter();
        failures.map(|one| one["error"].as_str().unwrap().to_owned()).collect()
    }
}

/// PBX-172
#[test]
fn the_worker_in_shell_runs_as_documented() {
    let outbox = Outbox::new();
    let done: Vec<String> =
        (0..50).map(|n| outbox.enqueue(&["--topic", "t", "--payload", &format!("{{\"n\":{n}}}")])).collect();
    let later = outbox.enqueue(&["--topic", "later", "--payload", "{\"item\":\"no\"}"]);
    let script = outbox.write_script("worker.sh", example("sh"));
    let (_, counts) = outbox.work_lines(&format!("sh {script}"), &[]);
    assert_eq!(counts, json!({"done": 50, "retry": 1, "dead": 0, "killed": 0, "ended": "by-itself"}));
    assert!(done.iter().all(|id| outbox.shown(id)["status"] == "done"));
    assert_eq!(outbox.failures(&later), ["not yet"]);
}

/// PBX-172
#[test]
fn the_worker_in_python_runs_as_documented() {
    let there = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        writeln!(std::io::stdout(), "could not run: long-lived worker in Python: there is no python3")
            .unwrap();
        return;
    }
    let outbox = Outbox::new();
    let good = outbox.enqueue(&["--topic", "mail", "--payload", "{\"to\":\"ada\"}"]);
    let bad = outbox.enqueue(&["--topic", "mail", "--payload", "{}"]);
    let script = outbox.write_script("worker.py", example("python"));
    let (reports, counts) = outbox.work_lines(&format!("python3 {script}"), &[]);
    assert_eq!(counts, json!({"done": 1, "retry": 0, "dead": 1, "killed": 0, "ended": "by-itself"}));
    assert_eq!(outbox.shown(&good)["status"], "done");
    assert_eq!(outbox.failures(&bad), ["KeyError('to')"]);
    assert!(reports.iter().any(|report| report["error"] == json!("KeyError('to')")), "{reports:?}");
}

/// PBX-172: the one that crashes its process is found, and the others lose no attempt.
#[test]
fn a_message_that_ends_its_process_is_found_among_others() {
    let outbox = Outbox::new();
    let ids: Vec<String> = ["a", "b", "poison", "c", "d"]
        .map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]))
        .into();
    let script = format!(
        "while IFS= read -r line; do {ITEM}; case $line in *'\"topic\":\"poison\"'*) echo boom >&2; exit 3;; esac; {}; done",
        ack("$item")
    );
    let (_, counts) = outbox.work_lines(&script, &["--workers", "1", "--max-attempts", "1"]);
    assert_eq!(counts, json!({"done": 4, "retry": 0, "dead": 1, "killed": 0, "ended": "by-itself"}));
    for (place, id) in ids.iter().enumerate() {
        let shown = outbox.shown(id);
        let expected =
            if place == 2 { ("dead", vec!["exit code 3: boom".to_owned()]) } else { ("done", vec![]) };
        assert_eq!((shown["status"].as_str().unwrap(), outbox.failures(id)), expected, "{place}");
        assert_eq!(shown["attempts"], json!(1), "{place}: one claim, and no attempt of the crash of another");
    }
}

/// PBX-172
#[test]
fn a_process_that_exits_on_its_own_is_started_again() {
    let outbox = Outbox::new();
    for _ in 0..5 {
        outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    }
    let script = format!("IFS= read -r line; {ITEM}; {}; echo >> \"$FOLDER/runs\"", ack("$item"));
    let (_, counts) = outbox.work_lines(&script, &["--workers", "1"]);
    assert_eq!(counts["done"], json!(5));
    assert_eq!(
        std::fs::read_to_string(outbox.path("runs")).unwrap().len(),
        5,
        "one message for each process"
    );
}

/// PBX-172: such a command would otherwise be started for ever, and `--until-empty` would never end.
#[test]
fn a_command_that_never_gives_a_verdict_costs_its_messages_attempts() {
    let outbox = Outbox::new();
    let ids = ["a", "b"].map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]));
    let (reports, counts) = outbox.work_lines("true", &["--workers", "2", "--max-attempts", "1"]);
    assert_eq!(counts, json!({"done": 0, "retry": 0, "dead": 2, "killed": 0, "ended": "by-itself"}));
    assert_eq!(reports.len(), 2);
    for id in ids {
        assert_eq!(outbox.failures(&id), ["the command ended without a verdict"]);
    }
}

/// PBX-172
#[test]
fn a_message_that_makes_its_process_end_in_silence_is_found_among_others() {
    let outbox = Outbox::new();
    let ids =
        ["a", "b", "quit", "c", "d"].map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]));
    let script = format!(
        "while IFS= read -r line; do {ITEM}; case $line in *'\"topic\":\"quit\"'*) exit 0;; esac; {}; done",
        ack("$item")
    );
    let (_, counts) = outbox.work_lines(&script, &["--workers", "1", "--max-attempts", "1"]);
    assert_eq!((&counts["done"], &counts["dead"]), (&json!(4), &json!(1)));
    assert_eq!(outbox.failures(&ids[2]), ["the command ended without a verdict"]);
    assert_eq!(outbox.shown(&ids[3])["attempts"], json!(1));
}

/// PBX-172
#[test]
fn a_command_that_ends_without_a_verdict_is_noted() {
    let outbox = Outbox::new();
    outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let working = Working::start(&outbox, "true", &["--protocol", "jsonl", "--until-empty"]);
    let errors = working.errors();
    assert!(errors.contains("with exit code 0 and without a verdict"), "{errors}");
}

/// PBX-172
#[test]
fn lines_that_are_no_verdicts_are_ignored() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let script = format!(
        "while IFS= read -r line; do {ITEM}; echo hello; echo '{{\"item\":\"x@1\",\"verdict\":\"ack\"}}'; echo; {}; done",
        ack("$item")
    );
    let working = Working::start(&outbox, &script, &["--protocol", "jsonl", "--until-empty"]);
    let errors = working.errors();
    assert!(errors.contains("not verdicts on its messages"), "{errors}");
    assert_eq!(outbox.shown(&id)["status"], "done");
}

/// PBX-172
#[test]
fn a_verdict_that_cannot_be_read_fails_the_attempt() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let script = format!(
        "while IFS= read -r line; do {ITEM}; echo '{{\"item\":\"'$item'\",\"verdict\":\"done\"}}'; done"
    );
    let (_, counts) = outbox.work_lines(&script, &["--max-attempts", "1"]);
    assert_eq!(counts["dead"], json!(1));
    assert!(outbox.failures(&id)[0].starts_with("the verdict can't be read: unknown variant"));
}

/// PBX-172
#[test]
fn a_process_that_stalls_is_killed_at_its_deadline() {
    let outbox = Outbox::new();
    let ids = ["a", "stuck", "b"].map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]));
    let script = format!(
        "while IFS= read -r line; do {ITEM}; case $line in *'\"topic\":\"stuck\"'*) sleep 1000;; esac; {}; done",
        ack("$item")
    );
    let options = ["--workers", "1", "--max-attempts", "1", "--deadline", "3s"];
    let (_, counts) = outbox.work_lines(&script, &options);
    assert_eq!((&counts["done"], &counts["dead"]), (&json!(2), &json!(1)));
    assert_eq!(outbox.failures(&ids[1]), ["no verdict within 3s"]);
}

/// PBX-172
#[test]
fn a_command_that_is_not_there_burns_no_attempt() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let working = Working::start(&outbox, "./no-such-command", &["--protocol", "jsonl", "--json"]);
    let report: Value = serde_json::from_str(&working.line()).unwrap();
    assert!(report["error"].as_str().unwrap().contains("can't be started"), "{report}");
    working.tell_to_end();
    assert_eq!(working.end().1, Some(0));
    assert_eq!(outbox.shown(&id)["attempts"], json!(0));
}

/// PBX-172
#[test]
fn a_shutdown_waits_for_verdicts_and_closes_the_input() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let script = format!(
        "while IFS= read -r line; do {ITEM}; echo begun >&2; read -r _ < \"$FOLDER/gate\"; {}; done; echo > \"$FOLDER/ended\"",
        ack("$item")
    );
    let made = Command::new("mkfifo").arg(outbox.path("gate")).status().unwrap();
    assert!(made.success());
    let working = Working::start(&outbox, &script, &["--protocol", "jsonl", "--json", "--drain", "60s"]);
    // Opening the gate for writing waits until the script reads it, so the message is in its hands.
    let mut gate = std::fs::OpenOptions::new().write(true).open(outbox.path("gate")).unwrap();
    working.tell_to_end();
    gate.write_all(b"go\n").unwrap();
    drop(gate);
    let (lines, code) = working.end();
    let counts: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!((code, &counts["done"], &counts["ended"]), (Some(0), &json!(1), &json!("told")));
    assert_eq!(outbox.shown(&id)["status"], "done");
    assert!(outbox.path("ended").exists(), "the process saw the end of its input and ended by itself");
}
