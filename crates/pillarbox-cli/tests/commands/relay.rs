//! `relay` and `config`: the daemon as people start and stop it.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::outbox::{Outbox, pillarbox, run};

/// Whatever is waited for has come by then, or never comes.
const PATIENCE: Duration = Duration::from_secs(120);
const CANARY: &str = "c4n4ry";
const WEBHOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A request as the API saw it.
pub(crate) struct Posted {
    path: String,
    head: String,
    pub(crate) items: Vec<Value>,
    /// Answers it; dropped, the connection is closed.
    answer: SyncSender<String>,
}

impl Posted {
    pub(crate) fn accept(&self) {
        self.say("");
    }

    /// Answers 200 with this body.
    fn say(&self, body: &str) {
        self.answer.send(body.to_owned()).unwrap();
    }
}

/// An HTTP API that answers each request when it is told to.
pub(crate) struct Api {
    address: SocketAddr,
    requests: Receiver<Posted>,
}

impl Api {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, requests) = sync_channel(1_000);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, send) = (stream.unwrap(), send.clone());
                std::thread::spawn(move || serve(stream, &send));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    #[track_caller]
    pub(crate) fn request(&self) -> Posted {
        self.requests.recv_timeout(PATIENCE).expect("a request comes")
    }
}

fn serve(stream: TcpStream, send: &SyncSender<Posted>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or_default() == 0 {
                return;
            }
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let (answer, answered) = sync_channel(1);
        let items = serde_json::from_slice(&body).unwrap_or_default();
        if send.send(Posted { path, head, items, answer }).is_err() {
            return;
        }
        let Ok(body) = answered.recv_timeout(PATIENCE) else { return };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A relay that runs.
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn start(outbox: &Outbox, arguments: &[&str]) -> Self {
        let mut command = outbox.command(&[&["relay"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = whole(child.stdout.take().unwrap());
        let stderr = whole(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    fn tell_to_end(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let stderr = self.stderr.recv_timeout(PATIENCE).expect("it ends");
        let stdout = self.stdout.recv_timeout(PATIENCE).expect("it ends");
        (self.child.wait().unwrap().code(), stdout, stderr)
    }
}

fn whole(mut stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let _ = send.send(text);
    });
    receive
}

fn written(outbox: &Outbox, group: &str, count: usize) {
    for n in 0..count {
        outbox.write(&["--type", "order.placed", "--group", group, "--payload", &format!("{{\"n\":{n}}}")]);
    }
}

/// RLY-001, RLY-033, RLY-040, RLY-041
#[test]
fn a_table_is_drained_to_an_api_in_order_until_it_is_empty() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "a", 5);
    let flags =
        ["--api-base-url", &api.url(), "--api-batch-size", "2", "--api-token", CANARY, "--until-empty"];
    let relay = Running::start(&outbox, &flags);
    let mut numbers = Vec::new();
    while numbers.len() < 5 {
        let posted = api.request();
        assert_eq!(posted.path, "/api/events/batch");
        assert!(posted.head.to_ascii_lowercase().contains(&format!("authorization: bearer {CANARY}")));
        assert!(posted.items.len() <= 2);
        numbers.extend(posted.items.iter().map(|item| item["n"].as_u64().unwrap()));
        posted.accept();
    }
    let (code, stdout, stderr) = relay.end();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "delivered 5 events, 0 attempts failed, 0 dead; nothing is left\n")
    );
    assert!(stderr.contains(&format!("default: {} to {}", outbox.url(), api.url())), "{stderr}");
    assert!(!stderr.contains(CANARY), "{stderr}");
}

/// PBX-090: an endpoint that is not there is in the log at once, and the end tells how many requests failed and what waits.
#[test]
fn an_endpoint_that_is_not_there_is_told_while_it_runs_and_at_its_end() {
    let outbox = Outbox::new();
    written(&outbox, "a", 1);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{nobody}");
    let mut command = outbox.command(&["relay", "--api-base-url", &url, "--drain", "0s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (send, lines) = sync_channel(1_000);
    let stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let warned = loop {
        let line = lines.recv_timeout(PATIENCE).expect("a warning comes");
        if line.contains("the endpoint fails") {
            break line;
        }
    };
    for told in ["WARN", "class=\"refused\"", "waiting_events=\"1\"", "next_attempt_in="] {
        assert!(warned.contains(told), "{told}: {warned}");
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let summary = whole(child.stdout.take().unwrap()).recv_timeout(PATIENCE).expect("it ends");
    assert!(summary.starts_with("delivered 0 events, 0 attempts failed, 0 dead; "), "{summary}");
    assert!(summary.contains("failed: could not connect: ") && summary.contains("(refused)"), "{summary}");
    assert!(summary.ends_with("; 1 event still waits\n"), "{summary}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// RLY-070: the end never says that nothing is left while events wait behind a paused group.
#[test]
fn what_waits_behind_a_paused_group_is_told_at_the_end() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "a", 2);
    outbox.run(&["groups", "pause", "a"]).done();
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
    let (code, stdout, _) = relay.end();
    let told = "delivered 0 events, 0 attempts failed, 0 dead; 2 events still wait (2 in groups that are paused or blocked)\n";
    assert_eq!((code, stdout.as_str()), (Some(0), told));
}

/// RLY-070: an event that is neither due nor in a group that goes on is counted once.
#[test]
fn a_delayed_event_of_a_paused_group_counts_as_held_only() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "a", 1);
    for group in ["a", "b"] {
        outbox.write(&["--type", "order.placed", "--group", group, "--payload", "{}", "--due", "1h"]);
    }
    outbox.run(&["groups", "pause", "a"]).done();
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
    let told = "3 events still wait (2 in groups that are paused or blocked, 1 for their time)\n";
    let (code, stdout, _) = relay.end();
    assert!(code == Some(0) && stdout.ends_with(told), "{stdout}");
}

/// PBX-018: words of trouble and words nobody knows neither deliver an event nor cost it an attempt.
#[test]
fn an_event_that_the_endpoint_could_not_take_is_sent_again_without_a_count() {
    let (outbox, api) = (Outbox::new(), Api::new());
    let id = outbox.write(&["--type", "order.placed", "--group", "a", "--payload", "{\"n\":0}"]);
    let flags = ["--api-base-url", &api.url(), "--max-retries", "0", "--until-empty"];
    let relay = Running::start(&outbox, &flags);
    for word in ["INTERNAL_ERROR", "QUARANTINED"] {
        let answer = json!({"results": [{"id": id.as_str(), "status": word}]});
        api.request().say(&answer.to_string());
    }
    api.request().say(&json!({"results": [{"id": id.as_str(), "status": "SUCCESS"}]}).to_string());
    let (code, stdout, stderr) = relay.end();
    assert_eq!((code, stdout.starts_with("delivered 1 event")), (Some(0), true), "{stdout}");
    assert!(stderr.contains("quarantined") && stderr.contains("by-status"), "{stderr}");
    let shown = outbox.shown(&id);
    assert_eq!((&shown["status"], &shown["attempts"]), (&json!("done"), &json!(0)), "{shown:#}");
}

/// PBX-010, RLY-043: what follows an event that can't be sent waits behind it, and goes out after it is skipped.
#[test]
fn nothing_overtakes_an_event_that_can_not_be_sent() {
    for (on_dead, expected) in [("block", vec![1]), ("skip", vec![1, 3])] {
        let (outbox, api) = (Outbox::new(), Api::new());
        for payload in ["{\"n\":1}", "not json", "{\"n\":3}"] {
            outbox.write(&["--type", "order.placed", "--group", "g", "--payload", payload]);
        }
        let flags = ["--api-base-url", &api.url(), "--on-dead", on_dead, "--until-empty"];
        let relay = Running::start(&outbox, &flags);
        let mut sent = Vec::new();
        for _ in &expected {
            let posted = api.request();
            sent.extend(posted.items.iter().map(|item| item["n"].as_u64().unwrap()));
            posted.accept();
        }
        assert_eq!((relay.end().0, &sent), (Some(0), &expected), "{on_dead}");
        let events = outbox.run(&["stats", "--json"]).done().json()["events"].clone();
        let (waiting, done) = (2 - expected.len(), expected.len());
        assert_eq!(events, json!({"new": waiting, "retry": 0, "done": done, "dead": 1}), "{on_dead}");
    }
}

/// PBX-140: a relay that starts on the host of one that was killed takes over at once; the lease would outlast the test.
#[test]
#[cfg(target_os = "linux")]
fn a_relay_takes_over_from_one_that_was_killed_on_its_host_without_waiting_for_the_lease() {
    let (outbox, api) = (Outbox::new(), Api::new());
    let url = api.url();
    let flags = ["--api-base-url", &url, "--lease", "1h"];
    let mut killed = Running::start(&outbox, &flags);
    let pid = loop {
        let listed = outbox.run(&["nodes", "list", "--json"]).done().json();
        if let Some(pid) = listed[0]["pid"].as_u64() {
            break pid;
        }
    };
    assert_eq!(pid, u64::from(killed.child.id()));
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    written(&outbox, "a", 1);
    let relay = Running::start(&outbox, &[&flags[..], &["--until-empty"]].concat());
    api.request().accept();
    let (code, stdout, stderr) = relay.end();
    assert_eq!((code, stdout.starts_with("delivered 1 event")), (Some(0), true), "{stdout}");
    assert!(stderr.contains("the process of this node has ended"), "{stderr}");
}

/// RLY-024: told to end, it delivers what is out, gives back the rest and exits with 0.
#[test]
fn sigterm_ends_it_well() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "a", 2);
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--json"]);
    let posted = api.request();
    relay.tell_to_end();
    posted.accept();
    let (code, stdout, stderr) = relay.end();
    assert_eq!(code, Some(0), "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&summary["delivered"], &summary["empty"]), (&json!(2), &json!(false)));
    assert_eq!(outbox.run(&["nodes", "list"]).done().stdout, "no nodes\n");
}

/// A second signal does not wait for the API.
#[test]
fn a_second_sigterm_ends_it_at_once() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "a", 1);
    let admin = ["--admin", "127.0.0.1:0"];
    let relay = Running::start(&outbox, &[&["--api-base-url", &api.url()], &admin[..]].concat());
    let _unanswered = api.request();
    relay.tell_to_end();
    // The API never answers: only the second signal can end it within the patience of this test.
    relay.tell_to_end();
    let ended = std::iter::repeat_with(|| {
        relay.tell_to_end();
        relay.stderr.recv_timeout(Duration::from_millis(200)).ok()
    });
    let stderr = ended.take(500).flatten().next().expect("it ends");
    let mut child = relay.child;
    assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(stderr.contains("nothing is lost"), "{stderr}");
}

#[test]
fn groups_that_are_held_stay_so_and_do_not_keep_it_from_ending() {
    let (outbox, api) = (Outbox::new(), Api::new());
    written(&outbox, "held", 2);
    outbox.run(&["groups", "pause", "held"]).done();
    let until_empty = || Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty", "--json"]);
    let (code, stdout, _) = until_empty().end();
    let delivered = |stdout: &str| serde_json::from_str::<Value>(stdout).unwrap()["delivered"].clone();
    assert_eq!((code, delivered(&stdout)), (Some(0), json!(0)));
    outbox.run(&["groups", "resume", "held"]).done();
    let relay = until_empty();
    api.request().accept();
    let (code, stdout, _) = relay.end();
    assert_eq!((code, delivered(&stdout)), (Some(0), json!(2)));
}

/// RLY-005: items go to the path of their table.
#[test]
fn the_tables_of_items_are_drained_too() {
    let (outbox, api) = (Outbox::of_items(), Api::new());
    run(&["migrate", "--layout", "flowcatalyst", "--table", "outbox_dispatch_jobs", "--url", &outbox.url()])
        .done();
    outbox.write(&["--type", "EVENT", "--group", "g", "--payload", "{\"n\":1}"]);
    outbox.write(&["--table", "outbox_dispatch_jobs", "--type", "DISPATCH_JOB", "--payload", "{\"n\":2}"]);
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
    let mut paths: Vec<String> = Vec::new();
    for _ in 0..2 {
        let posted = api.request();
        paths.push(format!("{} {}", posted.path, posted.items[0]["n"]));
        posted.accept();
    }
    paths.sort();
    assert_eq!(paths, ["/api/dispatch/jobs/batch 2", "/api/events/batch 1"]);
    assert_eq!(relay.end().0, Some(0));
    outbox.run(&["groups", "pause", "g"]).done();
    outbox.write(&["--type", "EVENT", "--group", "g", "--payload", "{\"n\":3}"]);
    let held = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty", "--json"]).end();
    assert_eq!(held.0, Some(0), "{}", held.2);
    let summary: Value = serde_json::from_str(&held.1).unwrap();
    assert_eq!(summary["delivered"], 0);
}

#[test]
fn standard_output_holds_the_events_alone() {
    let outbox = Outbox::new();
    written(&outbox, "a", 3);
    let ran = outbox.run(&["relay", "--sink", "stdout:", "--until-empty"]).exits(0);
    assert_eq!(ran.stdout.lines().count(), 3);
    assert!(ran.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", ran.stdout);
    assert!(ran.stderr.contains("delivered 3 events"), "{}", ran.stderr);
}

/// RLY-051: every bad key at once, with where it stands, and no secret.
#[test]
fn a_wrong_configuration_stops_the_start_and_names_every_key() {
    let outbox = Outbox::new();
    let file = outbox.path("relay.toml");
    std::fs::write(&file, format!("poll-intervall = '1s'\nmax-retries = -1\napi-token = '{CANARY}'\n"))
        .unwrap();
    let file = file.display().to_string();
    for command in [&["relay"][..], &["config", "check"]] {
        let mut command = outbox.command(&[command, &["--config", &file, "--lease", "soon"]].concat());
        let ran = crate::outbox::Ran::of(command.env("PILLARBOX_API_BATCH_SIZE", "lots")).exits(2);
        for key in [
            "poll-intervall (line 1 of",
            "is it poll-interval?",
            "max-retries (line 2 of",
            "lease (--lease)",
            "api-batch-size (PILLARBOX_API_BATCH_SIZE)",
            "api-base-url: it is required",
        ] {
            assert!(ran.stderr.contains(key), "{key}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains(CANARY) && ran.stdout.is_empty(), "{ran:?}");
    }
}

/// RLY-050
#[test]
fn a_flag_goes_over_a_variable_over_the_file() {
    let outbox = Outbox::new();
    let file = outbox.path("relay.toml");
    std::fs::write(&file, "sink = 'stdout:'\npoll-batch-size = 1\napi-batch-size = 1\nmax-retries = 1\n")
        .unwrap();
    let file = file.display().to_string();
    let mut command = outbox.command(&["config", "check", "--json", "--config", &file, "--max-retries", "3"]);
    command.env("PILLARBOX_API_BATCH_SIZE", "2").env("PILLARBOX_MAX_RETRIES", "2");
    let ran = crate::outbox::Ran::of(&mut command).done();
    let keys = ran.json()["sources"][0]["keys"].clone();
    let of = |name: &str| {
        let key = keys.as_array().unwrap().iter().find(|key| key["key"] == name).unwrap();
        (key["value"].as_str().unwrap().to_owned(), key["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("poll-batch-size"), ("1".to_owned(), format!("line 2 of {file}")));
    assert_eq!(of("api-batch-size"), ("2".to_owned(), "PILLARBOX_API_BATCH_SIZE".to_owned()));
    assert_eq!(of("max-retries"), ("3".to_owned(), "--max-retries".to_owned()));
}

#[test]
fn the_default_file_and_the_schema_are_printed() {
    let outbox = Outbox::new();
    let default = run(&["config", "default"]).done().stdout;
    let file = outbox.path("default.toml");
    std::fs::write(&file, default.replace("POSTGRESQL", "SQLITE")).unwrap();
    let file = file.display().to_string();
    let checked =
        outbox.run(&["config", "check", "--config", &file, "--api-base-url", "http://localhost:1"]).done();
    assert!(checked.stdout.ends_with("the configuration is good\n"), "{}", checked.stdout);
    let schema = run(&["config", "schema"]).done().json();
    assert_eq!(schema["properties"]["poll-interval"]["default"], "1s");
}

/// PBX-023
#[test]
fn check_shows_no_secret() {
    let url = format!("postgres://me:{CANARY}@db/shop?password={CANARY}");
    let mut command = pillarbox();
    command.args(["config", "check", "--url", &url, "--admin", "0.0.0.0:1", "--webhook-secrets", CANARY]);
    command.args(["--sink", &format!("https://me:{CANARY}@api.example.com/x?key={CANARY}")]);
    command.env("PILLARBOX_API_TOKEN", CANARY).env("PILLARBOX_ADMIN_TOKEN", CANARY.repeat(3));
    let ran = crate::outbox::Ran::of(&mut command);
    assert!(!format!("{ran:?}").contains(CANARY), "{ran:?}");
    // What passes, as the relay prints it at its start too.
    for url in [format!("postgres://me:{CANARY}@localhost/{CANARY}"), format!("postgres:me:{CANARY}@db/shop")]
    {
        let mut command = pillarbox();
        command.args(["config", "check", "--url", &url, "--webhook-secrets", WEBHOOK_SECRET]);
        command
            .args(["--sink", &format!("webhook+https://hooks.example.com/services/{CANARY}?key={CANARY}")]);
        let ran = crate::outbox::Ran::of(&mut command).exits(0);
        assert!(!format!("{ran:?}").contains(CANARY), "{ran:?}");
        assert!(ran.stdout.contains("webhook+https://hooks.example.com "), "{}", ran.stdout);
    }
}

/// PBX-152: `config check` tells what the relay logs at its start.
#[test]
fn check_warns_of_a_database_that_anybody_could_read() {
    let check = |arguments: &[&str]| {
        let given = ["config", "check", "--sink", "stdout:", "--url", "postgres://db.example.com/shop"];
        run(&[&given[..], arguments].concat()).done()
    };
    let warning = "warning: database-url (--database-url): ";
    let stdout = check(&[]).stdout;
    assert!(stdout.contains(warning) && stdout.contains("sslmode=verify-full"), "{stdout}");
    assert!(check(&["--json"]).json()["warnings"][0].as_str().unwrap().contains("sslmode=verify-full"));
}

/// PBX-153, PBX-023
#[test]
fn what_an_endpoint_answers_is_kept_with_the_event_and_not_logged() {
    for (keep, is_kept) in [("text", true), ("none", false)] {
        let (outbox, api) = (Outbox::new(), Api::new());
        let id = outbox.write(&["--type", "t", "--payload", &format!("{{\"card\":\"{CANARY}\"}}")]);
        let arguments = ["--api-base-url", &api.url(), "--keep-answers", keep, "--until-empty"];
        let relay = Running::start(&outbox, &arguments);
        api.request().say(&format!("[{{\"status\":413,\"error\":\"cannot take {CANARY}\"}}]"));
        let (_, stdout, stderr) = relay.end();
        assert!(stderr.contains("event is dead") && stderr.contains("status 413"), "{stderr}");
        assert!(!stderr.contains(CANARY) && !stdout.contains(CANARY), "{stdout} {stderr}");
        let error = outbox.shown(&id)["last_error"].as_str().unwrap().to_owned();
        assert_eq!(error.contains(&format!("cannot take {CANARY}")), is_kept, "{error}");
    }
}

/// PBX-154
#[test]
fn ids_of_others_forge_no_line_of_the_log() {
    let (outbox, api) = (Outbox::new(), Api::new());
    let id = outbox.write(&["--type", "t", "--payload", "{}"]);
    outbox.update(&id, "event_id = 'x' || char(10) || 'ERROR forged' || char(27) || '[31m' || char(13)");
    let relay = Running::start(&outbox, &["--api-base-url", &api.url(), "--until-empty"]);
    api.request().say("[{\"status\":413}]");
    let (_, _, stderr) = relay.end();
    let dead: Vec<&str> = stderr.lines().filter(|line| line.contains("event is dead")).collect();
    assert_eq!(dead.len(), 1, "{stderr}");
    assert!(dead[0].contains("x\\nERROR forged\\u{1b}[31m\\r"), "{stderr}");
    assert!(!stderr.contains('\u{1b}') && !stderr.contains('\r'), "{stderr:?}");
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let outbox = Outbox::new();
    let sink = ["--sink", "stdout:"];
    let missing = outbox.run(&[&["relay", "--table", "letters"], &sink[..]].concat()).exits(1);
    assert!(
        missing.stderr.contains("letters") && missing.stderr.contains("pillarbox migrate"),
        "{missing:?}"
    );
    let away = "postgres://me@127.0.0.1:1/d?connect_timeout=1";
    let mut command = pillarbox();
    command.args([&["relay", "--until-empty", "--url", away], &sink[..]].concat());
    crate::outbox::Ran::of(&mut command).exits(5);
    let open = outbox.run(&[&["relay", "--admin", "0.0.0.0:0"], &sink[..]].concat()).exits(2);
    assert!(open.stderr.contains("admin-token"), "{open:?}");
}
