//! Readers that go away: every command ends in order, without a panic and without going round for ever.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde_json::{Value, json};

use crate::outbox::{Outbox, pillarbox};

/// Whatever is waited for has come by then, or never comes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which streams have nobody who reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unread {
    Output,
    Error,
    Both,
}

const ALL: [Unread; 3] = [Unread::Output, Unread::Error, Unread::Both];

/// Starts a command whose reader has gone before its first word.
fn unread(command: &mut Command, unread: Unread) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let swallow = |mut stream: Box<dyn Read + Send>| {
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    };
    match unread {
        Unread::Output => swallow(Box::new(stderr)),
        Unread::Error => swallow(Box::new(stdout)),
        Unread::Both => {}
    }
    child
}

/// The exit code; none: it was ended by a signal, its own abort too.
#[track_caller]
fn end(mut child: Child) -> Option<i32> {
    let (send, ended) = sync_channel(1);
    let id = child.id();
    std::thread::spawn(move || send.send(child.wait().unwrap().code()));
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("process {id} does not end"))
}

fn enqueued(outbox: &Outbox) -> String {
    let enqueued = outbox.run(&["queue", "enqueue", "--topic", "t", "--payload", "{}"]).done();
    enqueued.stdout.trim_end().to_owned()
}

fn working(outbox: &Outbox, script: &str, options: &[&str]) -> Command {
    let mut command = outbox.command(&[&["queue", "work", "--exec", script], options].concat());
    command.env("PATH", std::env::var("PATH").unwrap_or_default());
    command
}

fn pending(outbox: &Outbox) -> Value {
    outbox.run(&["stats", "--json"]).done().json()["pending"]["total"].clone()
}

/// PBX-053
#[test]
fn a_relay_whose_reader_is_gone_ends_in_order_and_keeps_what_it_has_not_delivered() {
    for (unread_streams, format) in ALL.into_iter().zip(["text", "json", "text"]) {
        let outbox = Outbox::new();
        outbox.write(&["--type", "t", "--group", "g"]);
        let flags = ["relay", "--sink", "stdout:", "--drain", "1s", "--log-format", format];
        let code = end(unread(&mut outbox.command(&flags), unread_streams));
        assert_eq!(code, Some(0), "{unread_streams:?}");
        assert_eq!(outbox.run(&["nodes", "list"]).done().stdout, "no nodes\n");
        if unread_streams != Unread::Error {
            assert_eq!(pending(&outbox), 1, "{unread_streams:?}");
        }
    }
}

/// PBX-053
#[test]
fn a_relay_until_empty_behind_head_ends() {
    let outbox = Outbox::new();
    let payload = format!("\"{}\"", "x".repeat(100_000));
    for _ in 0..3 {
        outbox.write(&["--type", "t", "--group", "g", "--payload", &payload]);
    }
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = outbox.command(&["relay", "--sink", "stdout:", "--until-empty", "--drain", "1s"]);
    let child = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    // The command holds the writing end too.
    drop(command);
    let mut line = String::new();
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut line).unwrap();
    assert!(!line.is_empty());
    drop(reader);
    assert_eq!(end(child), Some(0));
    assert_eq!(outbox.run(&["nodes", "list"]).done().stdout, "no nodes\n");
}

/// PBX-053
#[test]
fn a_worker_whose_reader_is_gone_ends_and_no_message_pays_for_it() {
    for unread_streams in [Unread::Output, Unread::Both] {
        let outbox = Outbox::new();
        let ids: Vec<String> = (0..3).map(|_| enqueued(&outbox)).collect();
        let script = "while true; do echo a line || exit 1; done";
        let code = end(unread(&mut working(&outbox, script, &["--drain", "1s"]), unread_streams));
        assert_eq!(code, Some(0), "{unread_streams:?}");
        for id in ids {
            let shown = outbox.shown(&id);
            assert_eq!((&shown["status"], &shown["attempts"]), (&json!("new"), &json!(0)), "{shown:#}");
        }
    }
}

/// PBX-053
#[test]
fn a_worker_whose_reports_nobody_reads_ends() {
    for (unread_streams, options) in [(Unread::Output, &["--json"][..]), (Unread::Error, &[])] {
        let outbox = Outbox::new();
        let id = enqueued(&outbox);
        let script = "echo a complaint >&2; exit 65";
        let code = end(unread(&mut working(&outbox, script, options), unread_streams));
        assert_eq!(code, Some(0), "{unread_streams:?}");
        let shown = outbox.shown(&id);
        assert!(["new", "dead"].contains(&shown["status"].as_str().unwrap()), "{shown:#}");
    }
}

/// PBX-053
#[test]
fn watching_ends_with_its_reader_and_the_log_needs_none() {
    let outbox = Outbox::new();
    for unread_streams in [Unread::Output, Unread::Both] {
        let mut command = outbox.command(&["stats", "--watch", "--interval", "100ms"]);
        command.env("PILLARBOX_LOG", "trace");
        assert_eq!(end(unread(&mut command, unread_streams)), Some(0), "{unread_streams:?}");
    }
    let mut command = outbox.command(&["stats"]);
    command.env("PILLARBOX_LOG", "trace");
    assert_eq!(end(unread(&mut command, Unread::Error)), Some(0));
}

/// PBX-053
#[test]
fn every_other_command_ends_as_it_would_with_a_reader() {
    let outbox = Outbox::new();
    outbox.write(&["--type", "t"]);
    for (arguments, code) in [
        (&["events", "list"][..], 0),
        (&["config", "default"], 0),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
        (&["relay", "--help"], 0),
        (&["demo", "--events", "50"], 0),
        (&["write", "--type", "t"], 0),
        (&["--no-such-option"], 2),
        (&["groups"], 2),
        (&["events", "show", "none"], 3),
    ] {
        for unread_streams in ALL {
            let code_seen = end(unread(&mut outbox.command(arguments), unread_streams));
            assert_eq!(code_seen, Some(code), "{arguments:?} {unread_streams:?}");
        }
    }
    assert_eq!(end(unread(pillarbox().arg("--version"), Unread::Both)), Some(0));
}
