//! `queue work`: a worker that runs a shell script for each message.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::outbox::Outbox;

/// Whatever is waited for has come by then, or never comes.
const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const UNTIL_EMPTY: &[&str] = &["--until-empty"];

impl Outbox {
    /// Runs the worker to its end; the reports, and the counts.
    #[track_caller]
    pub(crate) fn work(&self, script: &str, options: &[&str]) -> (Vec<Value>, Value) {
        let working = Working::start(self, script, &[options, &["--json"]].concat());
        let (lines, code) = working.end();
        assert_eq!(code, Some(0));
        documents(&lines)
    }
}

fn documents(lines: &[String]) -> (Vec<Value>, Value) {
    let mut documents: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts = documents.pop().unwrap();
    (documents, counts)
}

/// A worker, and what it prints line by line.
pub(crate) struct Working {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Working {
    pub(crate) fn start(outbox: &Outbox, script: &str, options: &[&str]) -> Self {
        let mut command = outbox.command(&[&["queue", "work", "--exec", script], options].concat());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", path)
            .env("FOLDER", outbox.path(""))
            .env("PILLARBOX_CORRELATION_ID", "of a parent")
            .env("PILLARBOX_API_TOKEN", "a secret of the worker")
            .env("PILLARBOX_OTLP_HEADERS", "key=secret");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (send, lines) = sync_channel(10_000);
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().for_each(|line| send.send(line.unwrap()).unwrap());
        });
        let (send, errors) = sync_channel(1);
        std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            send.send(text).unwrap();
        });
        Self { child, lines, errors }
    }

    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line is printed")
    }

    pub(crate) fn tell_to_end(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// What it wrote to standard error up to its end.
    #[track_caller]
    pub(crate) fn errors(mut self) -> String {
        let errors = self.errors.recv_timeout(PATIENCE).expect("nobody holds standard error open");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{errors}");
        errors
    }

    /// What it printed up to its end. Its pipes close when the last process that it started is gone.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Vec<String>, Option<i32>) {
        let errors = self.errors.recv_timeout(PATIENCE).expect("nobody holds standard error open");
        let lines: Vec<String> = std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect();
        let status = self.child.wait().unwrap();
        assert!(!errors.contains("panicked"), "{errors}");
        (lines, status.code())
    }
}

/// OBX-054, OBX-057, OBX-202
#[test]
fn the_payload_is_on_standard_input_and_the_rest_in_variables() {
    let outbox = Outbox::new();
    let fields = ["--topic", "mail.send", "--correlation-id", "order-7", "--header", "a=b"];
    let id = outbox.enqueue(&[&fields[..], &["--payload", "{\"n\":  1}"]].concat());
    let plain = outbox.enqueue(&["--topic", "plain", "--payload", ""]);
    let script = "cat > \"$FOLDER/$PILLARBOX_MESSAGE_ID.in\"; env > \"$FOLDER/$PILLARBOX_MESSAGE_ID.env\"";
    let (reports, counts) = outbox.work(script, UNTIL_EMPTY);
    assert_eq!(counts, json!({"done": 2, "retry": 0, "dead": 0, "killed": 0, "ended": "by-itself"}));
    let report = reports.iter().find(|report| report["id"] == json!(id)).unwrap();
    assert_eq!(
        (&report["result"], &report["exit_code"], &report["error"]),
        (&json!("done"), &json!(0), &json!(null))
    );
    let read = |name: String| std::fs::read_to_string(outbox.path(&name)).unwrap();
    assert_eq!(
        (read(format!("{id}.in")), read(format!("{plain}.in"))),
        ("{\"n\":  1}".to_owned(), String::new())
    );
    let variables = read(format!("{id}.env"));
    for line in [
        format!("PILLARBOX_MESSAGE_ID={id}"),
        format!("PILLARBOX_ITEM={id}@1"),
        "PILLARBOX_TOKEN=1".to_owned(),
        "PILLARBOX_TOPIC=mail.send".to_owned(),
        "PILLARBOX_CORRELATION_ID=order-7".to_owned(),
        "PILLARBOX_RETRY_COUNT=0".to_owned(),
        "PILLARBOX_HEADERS={\"a\":\"b\"}".to_owned(),
    ] {
        assert!(variables.lines().any(|known| known == line), "{line:?} is not in {variables}");
    }
    let plain = read(format!("{plain}.env"));
    assert!(!plain.contains("PILLARBOX_CORRELATION_ID"), "what is not set is not inherited either: {plain}");
    assert_eq!(outbox.shown(&id)["status"], "done");
}

/// PBX-171: an empty variable in a script must not acknowledge every message.
#[test]
fn an_empty_command_is_refused_and_loses_nothing() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    for empty in ["", "  ", "\t\n"] {
        let refused = outbox.run(&["queue", "work", "--exec", empty, "--until-empty"]).exits(2);
        assert!(refused.stderr.contains("the command is empty"), "{refused:?}");
    }
    assert_eq!((&outbox.shown(&id)["status"], &outbox.shown(&id)["attempts"]), (&json!("new"), &json!(0)));
}

/// OBX-056, OBX-061
#[test]
fn the_exit_code_says_what_becomes_of_the_message() {
    let outbox = Outbox::new();
    let ids =
        ["fine", "again", "never", "odd"].map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]));
    let script = "case $PILLARBOX_TOPIC in
        again) echo 'no answer' >&2; exit 75;;
        never) echo 'no such address' >&2; exit 65;;
        odd) kill -9 $$;;
    esac";
    let (_, counts) = outbox.work(script, UNTIL_EMPTY);
    assert_eq!(counts, json!({"done": 1, "retry": 2, "dead": 1, "killed": 0, "ended": "by-itself"}));
    let shown = ids.map(|id| outbox.shown(&id));
    let stands: Vec<(&Value, &Value)> =
        shown.iter().map(|one| (&one["status"], &one["last_error"])).collect();
    assert_eq!(
        stands,
        [
            (&json!("done"), &json!(null)),
            (&json!("retry"), &json!("exit code 75: no answer")),
            (&json!("dead"), &json!("exit code 65: no such address")),
            (&json!("retry"), &json!("ended by signal 9")),
        ]
    );
    assert!(shown.iter().all(|one| one["locked_by"].is_null()));
}

/// OBX-040, OBX-064, OBX-065
#[test]
fn a_message_is_tried_again_until_it_is_done_and_dies_after_its_last_attempt() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let script = "[ \"$PILLARBOX_RETRY_COUNT\" = 1 ] && [ \"$PILLARBOX_LAST_ERROR\" = 'exit code 1' ]";
    let working = Working::start(&outbox, script, &["--json"]);
    let results = [working.line(), working.line()].map(|line| {
        let report: Value = serde_json::from_str(&line).unwrap();
        (report["item"].clone(), report["result"].clone())
    });
    assert_eq!(
        results,
        [(json!(format!("{id}@1")), json!("retry")), (json!(format!("{id}@2")), json!("done"))]
    );
    working.tell_to_end();
    let (lines, code) = working.end();
    assert_eq!((documents(&lines).1["ended"].clone(), code), (json!("told"), Some(0)));
    assert_eq!(outbox.shown(&id)["status"], "done");

    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let (reports, _) = outbox.work("exit 1", &["--until-empty", "--max-attempts", "1"]);
    assert_eq!((&reports[0]["result"], &outbox.shown(&id)["status"]), (&json!("dead"), &json!("dead")));
}

/// OBX-056: at its deadline a command is killed with all it has started.
#[test]
fn a_command_past_its_deadline_is_killed_with_all_it_started() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    // Were the one in the background left alive, it would hold the pipes open for longer than the test waits.
    let (reports, counts) = outbox.work("sleep 600 & sleep 600", &["--until-empty", "--deadline", "500ms"]);
    assert_eq!((&counts["killed"], &reports[0]["exit_code"]), (&json!(1), &json!(null)));
    let shown = outbox.shown(&id);
    assert_eq!((&shown["status"], &shown["locked_by"]), (&json!("retry"), &json!(null)));
    assert!(shown["last_error"].as_str().unwrap().contains("deadline"), "{shown}");
}

/// Works on messages of which one kills its worker each time, until that one is dead; each worker is a process of its own.
pub(crate) fn a_message_that_kills_its_worker_dies(outbox: &Outbox) {
    let killer = outbox.enqueue(&["--topic", "killer", "--payload", "{}"]);
    let others = [0, 1, 2].map(|_| outbox.enqueue(&["--topic", "fine", "--payload", "{}"]));
    let script = "echo $PILLARBOX_RETRY_COUNT >> \"$FOLDER/$PILLARBOX_TOPIC\"; [ $PILLARBOX_TOPIC = fine ] || kill -9 $PPID";
    let options = ["--until-empty", "--max-attempts", "3", "--lease", "500ms", "--workers", "1"];
    let mut kills = 0;
    while outbox.shown(&killer)["status"] != "dead" {
        let (_, code) = Working::start(outbox, script, &options).end();
        kills += usize::from(code.is_none());
        assert!(kills < 9, "it is sent for ever: {}", outbox.shown(&killer));
    }
    let tries = |topic: &str| {
        let file = std::fs::read_to_string(outbox.path(topic)).unwrap_or_default();
        file.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The first time nobody knew that it was the one: it is not counted.
    assert_eq!((kills, tries("killer")), (4, ["0", "0", "1", "2"].map(str::to_owned).to_vec()));
    let shown = outbox.shown(&killer);
    assert_eq!(shown["last_error"], "the process ended during its last attempt");
    let (_, code) = Working::start(outbox, script, &options).end();
    assert_eq!((code, tries("killer").len()), (Some(0), 4), "it is never sent again");
    assert!(others.iter().all(|id| outbox.shown(id)["status"] == "done"));
    assert!(tries("fine").iter().all(|count| count == "0"), "they lost no attempt: {:?}", tries("fine"));
}

/// PBX-070, OBX-064
#[test]
fn a_message_that_kills_its_worker_dies_and_takes_no_other_with_it() {
    a_message_that_kills_its_worker_dies(&Outbox::new());
}

/// EVT-070: what runs is drained.
#[test]
fn told_to_end_it_lets_a_command_end_that_runs() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let go = outbox.path("go");
    std::process::Command::new("mkfifo").arg(&go).status().unwrap();
    let working = Working::start(&outbox, "echo started; read line < \"$FOLDER/go\"", &["--drain", "1m"]);
    assert_eq!(working.line(), "started");
    working.tell_to_end();
    std::fs::write(&go, "\n").unwrap();
    let (_, code) = working.end();
    assert_eq!((code, &outbox.shown(&id)["status"]), (Some(0), &json!("done")));
}

/// EVT-070, PBX-013: what does not end in time is killed and given back, as if it had never been claimed.
#[test]
fn told_to_end_it_gives_back_what_does_not_end() {
    let outbox = Outbox::new();
    let ids = [0, 1].map(|_| outbox.enqueue(&["--topic", "t", "--payload", "{}"]));
    let script = "echo started; sleep 600 & sleep 600";
    let working = Working::start(&outbox, script, &["--drain", "100ms", "--workers", "1"]);
    assert_eq!(working.line(), "started");
    working.tell_to_end();
    let (lines, code) = working.end();
    assert_eq!((lines.len(), code), (0, Some(0)), "{lines:?}");
    for id in ids {
        let shown = outbox.shown(&id);
        assert_eq!((&shown["status"], &shown["attempts"]), (&json!("new"), &json!(0)));
        assert_eq!(shown["locked_by"], json!(null));
    }
}

/// OBX-054, OBX-055, PBX-071
#[test]
fn messages_of_other_topics_are_left_for_others() {
    let outbox = Outbox::new();
    let topics = ["mail", "fax", "telex"];
    let ids = topics.map(|topic| outbox.enqueue(&["--topic", topic, "--payload", "{}"]));
    let (_, counts) = outbox.work("true", &["--topic", "mail", "--topic", "fax", "--until-empty"]);
    assert_eq!(counts["done"], 2);
    let left = outbox.shown(&ids[2]);
    assert_eq!((&left["attempts"], &left["locked_by"]), (&json!(0), &json!(null)));
    assert_eq!((&left["status"], &left["last_error"]), (&json!("new"), &json!(null)), "nobody touched it");
}

/// OBX-026
#[test]
fn one_batch_is_taken_and_the_rest_is_left() {
    let outbox = Outbox::new();
    (0..5).for_each(|_| drop(outbox.enqueue(&["--topic", "t", "--payload", "{}"])));
    let (reports, _) = outbox.work("true", &["--once", "--batch", "2"]);
    assert_eq!(reports.len(), 2);
    let done = outbox.run(&["events", "list", "--status", "done", "--json"]).done().json();
    assert_eq!(done.as_array().unwrap().len(), 2);
    let (none, counts) = Outbox::new().work("true", &["--once"]);
    assert_eq!((none.len(), &counts["done"]), (0, &json!(0)), "an empty queue is done");
}

#[test]
fn what_a_command_does_not_read_and_what_it_says_too_much_does_no_harm() {
    let outbox = Outbox::new();
    let file = outbox.path("large");
    std::fs::write(&file, "x".repeat(300_000)).unwrap();
    let id = outbox.enqueue(&["--topic", "t", "--payload", &format!("@{}", file.display())]);
    let script = "yes 0123456789 | head -c 200000 >&2; echo the end >&2; exit 1";
    let (reports, _) = outbox.work(script, UNTIL_EMPTY);
    let error = reports[0]["error"].as_str().unwrap();
    assert!(
        error.starts_with("exit code 1: ") && error.ends_with("the end") && error.len() < 2_100,
        "{error}"
    );
    assert_eq!(outbox.shown(&id)["last_error"], json!(error));
}

/// PBX-150
#[test]
fn a_command_gets_no_secret_of_ours_unless_it_is_named() {
    let outbox = Outbox::new();
    outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let variables = || {
        let text = std::fs::read_to_string(outbox.path("env")).unwrap();
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect::<Vec<_>>()
    };
    let script = "env > \"$FOLDER/env\"; exit 1";
    outbox.work(script, UNTIL_EMPTY);
    let inherited = variables();
    assert!(inherited.contains(&"FOLDER".to_owned()), "other variables are passed on: {inherited:?}");
    for secret in ["PILLARBOX_DATABASE_URL", "PILLARBOX_API_TOKEN", "PILLARBOX_OTLP_HEADERS"] {
        assert!(!inherited.contains(&secret.to_owned()), "{secret} was passed on");
    }
    outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    outbox.work(script, &["--until-empty", "--pass-env", "PILLARBOX_API_TOKEN"]);
    let inherited = variables();
    assert!(inherited.contains(&"PILLARBOX_API_TOKEN".to_owned()), "{inherited:?}");
    assert!(!inherited.contains(&"PILLARBOX_DATABASE_URL".to_owned()), "{inherited:?}");
    let unknown = outbox.run(&["queue", "work", "--exec", "true", "--pass-env", "PILLARBOX_LOG"]);
    unknown.exits(2).complains("PILLARBOX_DATABASE_URL");
}

/// PBX-151: each of these would keep the queue from becoming empty, and five would open the breaker.
#[test]
fn a_message_that_no_command_can_be_started_with_dies_and_delays_no_other() {
    let outbox = Outbox::new();
    let large = "headers = json_object('large', printf('%.200000c', 'x'))";
    let nul = "correlation_id = 'a' || char(0) || 'b'";
    let bad = [large, large, large, nul, nul, nul].map(|set| {
        let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
        outbox.update(&id, set);
        id
    });
    let good = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let (reports, counts) = outbox.work("true", UNTIL_EMPTY);
    assert_eq!((&counts["done"], &counts["dead"], &counts["retry"]), (&json!(1), &json!(6), &json!(0)));
    assert!(reports.iter().any(|report| report["result"] == "dead" && report["exit_code"] == json!(null)));
    assert_eq!(outbox.shown(&good)["status"], "done");
    for id in &bad {
        let shown = outbox.shown(id);
        assert_eq!(shown["status"], "dead");
        let error = shown["last_error"].as_str().unwrap();
        assert!(error.starts_with("no command can be started with"), "{error}");
    }
}

/// OBX-060: a message that a command enqueues is worked on too before the queue is empty.
#[test]
fn a_command_may_enqueue_and_people_see_what_it_prints() {
    let outbox = Outbox::new();
    outbox.enqueue(&["--topic", "first", "--payload", "{}"]);
    let binary = env!("CARGO_BIN_EXE_pillarbox");
    let script = format!(
        "echo $PILLARBOX_TOPIC; [ $PILLARBOX_TOPIC = second ] || {binary} queue enqueue --topic second --payload {{}} >/dev/null"
    );
    let options = [UNTIL_EMPTY, &["--pass-env", "PILLARBOX_DATABASE_URL"]].concat();
    let working = Working::start(&outbox, &script, &options);
    let (lines, code) = working.end();
    assert_eq!((lines, code), (vec!["first".to_owned(), "second".to_owned()], Some(0)));
}
