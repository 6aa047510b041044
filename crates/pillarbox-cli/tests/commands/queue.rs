//! `queue`: from a shell script's seat, with `--json`.

use serde_json::{Value, json};

use crate::outbox::{Outbox, Ran, run};

const OWNER: &str = "0b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";
/// Runs of the binary before something that has to come is given up on.
const TRIES: usize = 2_000;

impl Outbox {
    /// Enqueues a message and gives its id.
    #[track_caller]
    pub(crate) fn enqueue(&self, arguments: &[&str]) -> String {
        let ran = self.run(&[&["queue", "enqueue", "--json"], arguments].concat()).done();
        ran.json()["id"].as_str().unwrap().to_owned()
    }

    /// Claims what is due.
    #[track_caller]
    pub(crate) fn claim(&self, owner: &str, lease: &str) -> Vec<Value> {
        let claimed =
            self.run(&["queue", "claim", "--owner", owner, "--lease", lease, "--json"]).done().json();
        claimed.as_array().unwrap().clone()
    }

    /// Claims until something is there.
    #[track_caller]
    pub(crate) fn claim_in_time(&self, owner: &str) -> Vec<Value> {
        let claims = (0..TRIES).map(|_| self.claim(owner, "1h"));
        claims.into_iter().find(|claimed| !claimed.is_empty()).expect("a message falls due")
    }

    /// Settles by items of a claim.
    pub(crate) fn settle_items(&self, verb: &str, owner: &str, items: &[&str], options: &[&str]) -> Ran {
        let command = ["queue", verb, "--owner", owner, "--json"];
        self.run(&[&command[..], items, options].concat())
    }
}

fn item(message: &Value) -> &str {
    message["item"].as_str().unwrap()
}

/// OBX-001, OBX-002, OBX-013, OBX-014, OBX-016, OBX-019, OBX-020, OBX-021, OBX-024, OBX-027, OBX-032, OBX-202
#[test]
fn a_message_is_enqueued_claimed_whole_and_acknowledged() {
    let outbox = Outbox::new();
    let fields = ["--topic", "mail.send", "--payload", "{\"b\":1,  \"a\":2}", "--correlation-id", "order-7"];
    let more = ["--header", "source=cron", "--message-id", "m-1", "--due", "2020-01-01T00:00:00Z"];
    let id = outbox.enqueue(&[&fields[..], &more].concat());
    let claimed = outbox.claim(OWNER, "5m");
    assert_eq!(claimed.len(), 1);
    let message = &claimed[0];
    for (key, value) in [
        ("id", json!(id)),
        ("token", json!(1)),
        ("item", json!(format!("{id}@1"))),
        ("topic", json!("mail.send")),
        ("payload", json!({"text": "{\"b\":1,  \"a\":2}"})),
        ("correlation_id", json!("order-7")),
        ("message_id", json!("m-1")),
        ("headers", json!({"source": "cron"})),
        ("retry_count", json!(0)),
        ("last_error", json!(null)),
        ("due_at", json!("2020-01-01T00:00:00Z")),
        ("locked_by", json!(OWNER)),
    ] {
        assert_eq!(message[key], value, "{key}");
    }
    let shown = outbox.shown(&id);
    assert_eq!((&shown["created_at"], &shown["locked_by"]), (&message["created_at"], &json!(OWNER)));
    assert!(
        shown["locked_until"].as_str() >= message["locked_until"].as_str(),
        "no lease ends before it is said to"
    );
    assert_eq!(outbox.claim(OTHER, "5m"), [] as [Value; 0], "it is held");

    let acked = outbox.settle_items("ack", OWNER, &[item(message)], &[]).done().json();
    assert_eq!(acked, json!({"action": "ack", "changed": 1, "ignored": 0}));
    assert_eq!(outbox.shown(&id)["status"], "done");
    assert_eq!(outbox.claim(OWNER, "5m"), [] as [Value; 0]);
}

/// OBX-006, OBX-011: payloads of any form, an empty one too.
#[test]
fn payloads_come_from_the_command_line_a_file_and_standard_input() {
    let outbox = Outbox::new();
    std::fs::write(outbox.path("bytes"), [0xff, 0x00]).unwrap();
    let file = format!("@{}", outbox.path("bytes").display());
    outbox.enqueue(&["--topic", "t", "--payload", ""]);
    outbox.enqueue(&["--topic", "t", "--payload", &file]);
    for dash in ["-", "@-"] {
        let from = ["queue", "enqueue", "--topic", "t", "--payload", dash];
        outbox.run_with_input(&from, b"[1]").done();
    }
    let payloads: Vec<Value> =
        outbox.claim(OWNER, "5m").into_iter().map(|message| message["payload"].clone()).collect();
    let text = |text: &str| json!({ "text": text });
    assert_eq!(payloads, [text(""), json!({"base64": "/wA="}), text("[1]"), text("[1]")]);
}

/// OBX-012, OBX-018, OBX-023, PBX-019: what is to come is left, and what came too late is dead.
#[test]
fn messages_wait_for_their_time_and_die_after_it() {
    let outbox = Outbox::new();
    let later = outbox.enqueue(&["--topic", "t", "--payload", "{}", "--due", "2h"]);
    let late = outbox.enqueue(&["--topic", "t", "--payload", "{}", "--expires", "2020-01-01T00:00:00Z"]);
    assert_eq!(outbox.claim(OWNER, "5m"), [] as [Value; 0]);
    assert_eq!(
        (&outbox.shown(&later)["status"], &outbox.shown(&late)["status"]),
        (&json!("new"), &json!("dead"))
    );
    assert_eq!(outbox.run(&["queue", "claim", "--owner", OWNER]).done().stdout, "no messages\n");
}

#[test]
fn a_message_id_that_is_there_already_is_the_same_message() {
    let outbox = Outbox::new();
    let once = ["queue", "enqueue", "--topic", "t", "--payload", "{}", "--message-id", "once"];
    let first = outbox.run(&once).done().stdout;
    let again = outbox.run(&once).exits(0).complains("there already").stdout;
    assert_eq!(again, first);
    let programs = outbox.run(&[&once[..], &["--json"]].concat()).done().json();
    assert_eq!(programs, json!({"id": first.trim_end(), "fresh": false, "join": null}));
}

/// OBX-035, OBX-036, OBX-037, OBX-040, OBX-041, OBX-062
#[test]
fn an_abandoned_message_waits_by_the_retry_policy_and_comes_again() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let first = outbox.claim(OWNER, "5m").remove(0);
    let given_back = outbox.settle_items("abandon", OWNER, &[item(&first)], &["--error", "no answer"]).done();
    assert_eq!(given_back.json(), json!({"action": "abandon", "changed": 1, "ignored": 0}));
    let shown = outbox.shown(&id);
    assert_eq!((&shown["status"], &shown["locked_by"]), (&json!("retry"), &json!(null)));
    assert_eq!((&shown["last_error"], &shown["attempts"]), (&json!("no answer"), &json!(1)));
    let time = |text: &Value| text.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let wait = time(&shown["available_at"]).duration_since(time(&shown["failures"][0]["at"]));
    assert_eq!(wait.as_secs(), 2);

    let again = outbox.claim_in_time(OTHER).remove(0);
    assert_eq!((&again["id"], &again["token"]), (&json!(id), &json!(2)));
    assert_eq!((&again["retry_count"], &again["last_error"]), (&json!(1), &json!("no answer")));
}

/// OBX-025, OBX-042, OBX-043, OBX-048
#[test]
fn a_failed_message_is_dead_with_its_reason() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let held = outbox.claim(OWNER, "5m").remove(0);
    outbox.settle_items("fail", OWNER, &[item(&held)], &["--error", "no such address"]).done();
    let dead = outbox.run(&["dead", "list", "--json"]).done().json();
    assert_eq!((&dead[0]["id"], &dead[0]["last_error"]), (&json!(id), &json!("no such address")));
    assert_eq!(outbox.claim(OWNER, "5m"), [] as [Value; 0]);
}

/// PBX-014: from now on, by the database's clock.
#[test]
fn an_extended_lease_ends_later() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let held = outbox.claim(OWNER, "1m").remove(0);
    let before = outbox.shown(&id)["locked_until"].clone();
    let extended = outbox.settle_items("extend", OWNER, &[item(&held)], &["--lease", "10m"]).done().json();
    assert_eq!(extended, json!({"action": "extend", "changed": 1, "ignored": 0}));
    let after = outbox.shown(&id);
    assert!(after["locked_until"].as_str() > before.as_str());
    assert_eq!((&after["locked_by"], &after["status"]), (&json!(OWNER), &json!("new")));
}

/// OBX-030, OBX-031, OBX-038, OBX-039, OBX-044, OBX-045
#[test]
fn items_of_others_and_unknown_ones_are_ignored_and_counted() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let held = outbox.claim(OWNER, "5m").remove(0);
    for verb in ["ack", "abandon", "fail", "extend"] {
        let lost = outbox.settle_items(verb, OTHER, &[item(&held), "nobody@7"], &[]).exits(4);
        assert_eq!(lost.json(), json!({"action": verb, "changed": 0, "ignored": 2}));
        assert_eq!(lost.error()["kind"], "ownership-lost");
    }
    assert_eq!(outbox.shown(&id)["status"], "new");
    let some = outbox.settle_items("ack", OWNER, &["nobody@7", item(&held), item(&held)], &[]).done();
    assert_eq!(some.json(), json!({"action": "ack", "changed": 1, "ignored": 2}));
    outbox.settle_items("ack", OWNER, &[item(&held)], &[]).exits(4);
    let people = outbox.run(&["queue", "ack", "--owner", OWNER, item(&held)]).exits(4);
    assert_eq!(people.stdout, "acknowledged 0 messages, 1 ignored\n");
}

/// OBX-049, OBX-050, OBX-051, PBX-011: a zombie with the right owner id and an old token changes nothing.
#[test]
fn a_token_of_an_earlier_claim_changes_nothing() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let old = outbox.claim(OWNER, "300ms").remove(0);
    let reaps = (0..TRIES).map(|_| outbox.run(&["queue", "reap", "--json"]).done().json());
    let reaped = reaps.into_iter().find(|reaped| reaped["count"] != 0).expect("the lease runs out");
    assert_eq!(reaped, json!({"action": "reap", "dry_run": false, "count": 1}));
    assert_eq!(outbox.shown(&id)["locked_by"], json!(null));
    let held = outbox.claim_in_time(OWNER).remove(0);
    assert_eq!((&held["id"], &held["token"]), (&json!(id), &json!(2)));
    outbox.settle_items("ack", OWNER, &[item(&old)], &[]).exits(4);
    assert_eq!(outbox.shown(&id)["status"], "new");
    outbox.settle_items("ack", OWNER, &[item(&held)], &[]).done();
}

/// OBX-004, OBX-005, OBX-007, OBX-009, OBX-116, OBX-117: each with the field and its bound.
#[test]
fn bad_input_is_wrong_usage_that_names_the_field_and_its_bound() {
    let outbox = Outbox::new();
    let long = "x".repeat(256);
    let enqueue = ["queue", "enqueue", "--payload", "{}", "--topic"];
    let cases: &[(&[&str], &str)] = &[
        (&[&enqueue[..], &[""]].concat(), "event type is empty"),
        (&[&enqueue[..], &[&long]].concat(), "event type is 256 characters long, at most 255 are allowed"),
        (
            &[&enqueue[..], &["t", "--correlation-id", &long]].concat(),
            "correlation id is 256 characters long",
        ),
        (&[&enqueue[..], &["t", "--due", "soon"]].concat(), "RFC 3339"),
        (&[&enqueue[..], &["t", "--header", "s3cret"]].concat(), "--header has no `=`"),
        (&["queue", "enqueue", "--topic", "t"], "--payload"),
        (&["queue", "claim", "--owner", "me"], "an owner is a UUID"),
        (&["queue", "claim", "--owner", OWNER, "--lease", "0s"], "allowed is 300ms to 24h"),
        (&["queue", "claim", "--owner", OWNER, "--lease=-5s"], "--lease"),
        (&["queue", "claim", "--owner", OWNER, "--limit", "0"], "1..=10000"),
        (&["queue", "claim"], "--owner"),
        (&["queue", "ack", "--owner", OWNER], "<ID@TOKEN|->"),
        (&["queue", "ack", "--owner", OWNER, "01J"], "ID@TOKEN"),
        (&["queue", "ack", "--owner", OWNER, "01J@x"], "not a number"),
        (&["queue", "extend", "--owner", OWNER, "01J@1", "--lease", "25h"], "allowed is 300ms to 24h"),
        (&["queue", "reap", "--limit", "0"], "--limit"),
        (&["queue", "work"], "--exec"),
        (&["queue", "work", "--exec", "true", "--workers", "0"], "1..=1024"),
        (&["queue", "work", "--exec", "true", "--batch", "0"], "1..=10000"),
        (&["queue", "work", "--exec", "true", "--deadline", "0s"], "deadline is 0ns"),
        (&["queue", "work", "--exec", "true", "--topic", ""], "topic is empty"),
        (&["queue", "work", "--exec", "true", "--topic", "a", "--topic", "a"], "registered already"),
        (&["queue", "work", "--exec", "true", "--once", "--until-empty"], "--until-empty"),
    ];
    for (arguments, message) in cases {
        let ran = outbox.run(arguments).exits(2).complains(message);
        assert_eq!(ran.stdout, "");
        assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
    }
    assert_eq!(outbox.run(&["events", "list", "--json"]).done().json(), json!([]));
}

#[test]
fn people_read_whole_messages_too() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "mail", "--payload", "{\"n\":\u{1b}1}", "--header", "h=v"]);
    let people = outbox.run(&["queue", "claim", "--owner", OWNER]).done().stdout;
    for part in [&format!("item          {id}@1"), "mail", "h  v", "text, 8 bytes", "{\"n\":\u{FFFD}1}"] {
        assert!(people.contains(part), "{part:?} is not in {people}");
    }
}

/// RLY-005: the tables of the layout have no queue.
#[test]
fn the_flowcatalyst_layout_has_no_queue_and_says_so() {
    let outbox = Outbox::of_items();
    for command in [
        &["queue", "enqueue", "--topic", "t", "--payload", "{}"][..],
        &["queue", "claim", "--owner", OWNER],
        &["queue", "ack", "--owner", OWNER, "01J@1"],
        &["queue", "reap"],
        &["queue", "work", "--exec", "true", "--until-empty"],
        &["join", "start", "--expected", "1"],
        &["join", "list"],
    ] {
        let error = outbox.run(&[command, &["--json"]].concat()).exits(2).error();
        assert_eq!(error["kind"], "unsupported", "{command:?}");
        assert_eq!(error["message"], "the layout flowcatalyst has no queue");
    }
}

/// PBX-023
#[test]
fn a_store_that_is_not_there_has_its_own_exit_code() {
    for command in [
        &["queue", "enqueue", "--topic", "t", "--payload", "{}"][..],
        &["queue", "claim", "--owner", OWNER],
        &["queue", "work", "--exec", "true"],
        &["join", "list"],
    ] {
        let missing = run(&[command, &["--url", "sqlite:/no/such/folder/x.db", "--json"]].concat()).exits(5);
        assert_eq!(missing.error()["kind"], "unavailable");
    }
}

/// OBX-017
#[test]
fn claims_take_the_topics_that_are_named() {
    let outbox = Outbox::new();
    for topic in ["mail", "report", "import", "mail"] {
        outbox.enqueue(&["--topic", topic, "--payload", "{}"]);
    }
    let claim = |topics: &[&str]| {
        let options: Vec<&str> = topics.iter().flat_map(|topic| ["--topic", topic]).collect();
        let command = ["queue", "claim", "--owner", OWNER, "--json"];
        outbox.run(&[&command[..], &options].concat())
    };
    let topics = |claimed: Ran| -> Vec<String> {
        let claimed = claimed.done().json();
        claimed.as_array().unwrap().iter().map(|one| one["topic"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(topics(claim(&["none"])), [""; 0]);
    assert_eq!(topics(claim(&["mail", "import"])), ["mail", "import", "mail"]);
    assert_eq!(topics(claim(&[])), ["report"]);
    claim(&[""]).exits(2);
}

/// OBX-017: the claim begins before the message is there, or after; it takes it either way.
#[test]
fn a_claim_can_wait_for_a_message() {
    let outbox = Outbox::new();
    let claim = ["queue", "claim", "--owner", OWNER, "--json", "--wait", "2m"];
    let mut waiting = outbox.command(&claim);
    let waiting = waiting.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let claimed = Ran::from(waiting.unwrap().wait_with_output().unwrap()).done().json();
    assert_eq!(claimed[0]["id"], json!(id));
    let none = outbox.run(&["queue", "claim", "--owner", OTHER, "--wait", "10ms"]).done();
    assert_eq!(none.stdout, "no messages\n");
}

/// PBX-173
#[test]
fn items_are_read_from_standard_input() {
    let outbox = Outbox::new();
    for _ in 0..3 {
        outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    }
    let claimed = outbox.claim(OWNER, "5m");
    let lines: String = claimed.iter().map(|message| format!("{}\n", item(message))).collect();
    let ack = ["queue", "ack", "--owner", OWNER, "--json", "-"];
    let wrong = outbox.run_with_input(&ack, format!("{lines}\nnonsense\n").as_bytes()).exits(2);
    assert!(wrong.stderr.contains("line 5: "), "{wrong:?}");
    assert_eq!(outbox.shown(claimed[0]["id"].as_str().unwrap())["status"], "new", "nothing was settled");
    let done = outbox.run_with_input(&ack, lines.replace('\n', " \r\n\n").as_bytes()).done().json();
    assert_eq!(done, json!({"action": "ack", "changed": 3, "ignored": 0}));
    let none = outbox.run_with_input(&ack, b"").done().json();
    assert_eq!(none["changed"], json!(0), "nothing to do is no failure");
    outbox.run_with_input(&ack, lines.as_bytes()).exits(4);
    outbox.settle_items("ack", OWNER, &["-", "a@1"], &[]).exits(2);
}

/// OBX-036, OBX-037, OBX-041: the seed's reschedule.
#[test]
fn a_message_is_abandoned_with_a_delay_and_an_error() {
    let outbox = Outbox::new();
    let id = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let claimed = outbox.claim(OWNER, "5m");
    outbox
        .settle_items("abandon", OWNER, &[item(&claimed[0])], &["--delay", "0s", "--error", "not yet"])
        .done();
    let again = outbox.claim_in_time(OTHER);
    assert_eq!((&again[0]["last_error"], &again[0]["retry_count"]), (&json!("not yet"), &json!(1)));
    outbox.settle_items("abandon", OTHER, &[item(&again[0])], &["--delay", "1d"]).done();
    let shown = outbox.shown(&id);
    assert_eq!((&shown["last_error"], &shown["attempts"]), (&json!("rescheduled"), &json!(2)));
    let at = |key: &str| shown[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let wait = at("available_at").duration_since(at("created_at")).as_hours();
    assert!((23..=25).contains(&wait), "{shown}");
}
