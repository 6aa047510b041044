//! `join`: from the start to the message that follows the last step.

use serde_json::{Value, json};

use crate::outbox::Outbox;

const OWNER: &str = "0b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f";

impl Outbox {
    #[track_caller]
    fn start(&self, arguments: &[&str]) -> String {
        let started = self.run(&[&["join", "start", "--json"], arguments].concat()).done().json();
        started["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn join_shown(&self, join: &str) -> Value {
        self.run(&["join", "show", join, "--json"]).done().json()
    }

    #[track_caller]
    fn step(&self, join: &str) -> String {
        self.enqueue(&["--topic", "extract", "--payload", "{}", "--join", join])
    }

    /// Settles everything that is due.
    #[track_caller]
    fn settle_all(&self, verb: &str) {
        let claimed = self.claim(OWNER, "5m");
        let items: Vec<&str> = claimed.iter().map(|message| message["item"].as_str().unwrap()).collect();
        self.settle_items(verb, OWNER, &items, &[]).done();
    }
}

/// A whole fan-out and fan-in on one outbox, whatever its database.
pub(crate) fn fan_out_and_in(outbox: &Outbox) {
    let join = outbox.start(&["--expected", "2", "--group", "customer-7", "--metadata", "{\"file\":\"a\"}"]);
    let steps = [outbox.step(&join), outbox.step(&join)];
    let waited = outbox.run(&[
        "join",
        "wait",
        &join,
        "--on-complete-topic",
        "transform",
        "--on-complete-payload",
        "{\"n\": 1}",
        "--on-fail-topic",
        "alarm",
        "--json",
    ]);
    assert_eq!(waited.done().json(), json!({"action": "wait", "join": join, "changed": true}));
    let pending = outbox.join_shown(&join);
    for (key, value) in [
        ("id", json!(join)),
        ("status", json!("pending")),
        ("grouping_key", json!("customer-7")),
        ("metadata", json!("{\"file\":\"a\"}")),
        ("expected", json!(2)),
        ("attached", json!(2)),
        ("completed", json!(0)),
        ("failed", json!(0)),
        ("fired", json!(null)),
    ] {
        assert_eq!(pending[key], value, "{key}");
    }
    assert_eq!(pending["wait"]["on_complete"], json!({"topic": "transform", "payload": "{\"n\": 1}"}));
    let members: Vec<&str> =
        pending["members"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert_eq!(members, steps);

    outbox.settle_all("ack");
    let ended = outbox.join_shown(&join);
    assert_eq!((&ended["status"], &ended["completed"]), (&json!("completed"), &json!(2)));
    let claimed = outbox.claim(OWNER, "5m");
    assert_eq!(claimed.len(), 1, "what follows is enqueued once");
    assert_eq!((&claimed[0]["id"], &claimed[0]["topic"]), (&ended["fired"], &json!("transform")));
    assert_eq!(claimed[0]["payload"]["text"], "{\"n\": 1}");
}

/// OBX-080, OBX-081, OBX-082, OBX-083, OBX-089, OBX-090, OBX-093, OBX-095
#[test]
fn the_last_step_enqueues_what_follows() {
    fan_out_and_in(&Outbox::new());
}

/// OBX-084: a script that lost the answer may run the same command again.
#[test]
fn attaching_again_after_the_end_is_harmless() {
    let outbox = Outbox::new();
    let join = outbox.start(&["--expected", "1"]);
    let enqueue = |id: &str| {
        let command = ["queue", "enqueue", "--topic", "t", "--payload", "{}", "--json", "--join", &join];
        outbox.run(&[&command[..], &["--message-id", id]].concat())
    };
    let step = enqueue("m").done().json()["id"].as_str().unwrap().to_owned();
    outbox.settle_all("ack");
    outbox.run(&["join", "wait", &join, "--on-complete-topic", "next"]).done();
    assert_eq!(outbox.join_shown(&join)["status"], "completed");
    let again = outbox.run(&["join", "attach", &join, &step, "--json"]).done().json();
    assert_eq!(again["changed"], json!(false));
    assert_eq!(enqueue("m").exits(0).json()["id"], json!(step));
    let refused = enqueue("another").exits(1);
    assert!(refused.stderr.contains("has ended"), "{refused:?}");
    let claimed = outbox.claim(OWNER, "5m");
    assert_eq!(claimed.len(), 1, "only what follows the join: the refused message was taken back");
    assert_eq!(claimed[0]["topic"], "next");
}

/// OBX-092, OBX-094, OBX-046
#[test]
fn a_failed_step_fails_the_join_unless_failed_ones_are_ignored() {
    for (options, status, topic) in
        [(&[][..], "failed", "alarm"), (&["--ignore-failed"][..], "completed", "transform")]
    {
        let outbox = Outbox::new();
        let join = outbox.start(&["--expected", "1"]);
        outbox.step(&join);
        outbox.settle_all("fail");
        // The end has come: what follows is enqueued by the wait.
        let wait = ["join", "wait", &join, "--on-complete-topic", "transform", "--on-fail-topic", "alarm"];
        outbox.run(&[&wait[..], options].concat()).done();
        let shown = outbox.join_shown(&join);
        assert_eq!((&shown["status"], &shown["failed"]), (&json!(status), &json!(1)));
        let claimed = outbox.claim(OWNER, "5m");
        assert_eq!((&claimed[0]["topic"], &claimed[0]["payload"]), (&json!(topic), &json!({"text": "{}"})));
    }
}

/// OBX-083, OBX-084, OBX-085, OBX-086, OBX-087, OBX-088, OBX-096
#[test]
fn messages_are_attached_later_and_steps_are_told_by_hand() {
    let outbox = Outbox::new();
    let (join, other) = (outbox.start(&["--expected", "2"]), outbox.start(&["--expected", "2"]));
    let ids = [0, 1].map(|_| outbox.enqueue(&["--topic", "t", "--payload", "{}", "--due", "2h"]));
    let attach = |join: &str| {
        let command = ["join", "attach", join, &ids[0], &ids[1], "--json"];
        outbox.run(&command).done().json()["changed"].clone()
    };
    assert_eq!([attach(&join), attach(&join), attach(&other)], [json!(true), json!(false), json!(true)]);
    let report = |id: &str, how: &str| {
        outbox.run(&["join", "report", &join, id, how, "--json"]).done().json()["changed"].clone()
    };
    assert_eq!([report(&ids[0], "--completed"), report(&ids[0], "--completed")], [json!(true), json!(false)]);
    assert_eq!([report(&ids[1], "--failed"), report(&ids[1], "--completed")], [json!(true), json!(false)]);
    let shown = outbox.join_shown(&join);
    assert_eq!((&shown["completed"], &shown["failed"]), (&json!(1), &json!(1)));
    let states: Vec<&Value> = shown["members"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, [&json!("completed"), &json!("failed")]);
    assert_eq!(outbox.join_shown(&other)["completed"], 0, "each join counts for itself");
}

#[test]
fn a_cancelled_join_enqueues_nothing_and_is_on_record() {
    let outbox = Outbox::new();
    let join = outbox.start(&["--expected", "1", "--id", "import-7"]);
    outbox.step(&join);
    outbox.run(&["join", "wait", &join, "--on-complete-topic", "transform"]).done();
    let cancel = || outbox.run(&["join", "cancel", &join, "--json"]).done().json()["changed"].clone();
    assert_eq!([cancel(), cancel()], [json!(true), json!(false)]);
    outbox.settle_all("ack");
    assert_eq!(outbox.claim(OWNER, "5m"), [] as [Value; 0]);
    assert_eq!(outbox.join_shown(&join)["status"], "cancelled");
    let audit = outbox.audit();
    assert_eq!((audit[0].0.as_str(), audit[0].2.as_str()), ("cli/tester", "import-7"), "{audit:?}");
}

/// OBX-095
#[test]
fn joins_are_listed_by_group_and_status_without_payloads() {
    let outbox = Outbox::new();
    assert_eq!(outbox.run(&["join", "list"]).done().stdout, "no joins\n");
    let mine = outbox.start(&["--expected", "1", "--group", "a"]);
    let gone = outbox.start(&["--expected", "1", "--group", "a"]);
    outbox.start(&["--expected", "1", "--group", "b"]);
    outbox.run(&["join", "cancel", &gone]).done();
    outbox.run(&["join", "wait", &mine, "--on-fail-topic", "t", "--on-fail-payload", "s3cret"]).done();
    let list = |options: &[&str]| {
        let listed = outbox.run(&[&["join", "list", "--json"], options].concat()).done();
        assert!(!listed.stdout.contains("s3cret"));
        listed.json().as_array().unwrap().iter().map(|join| join["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(list(&["--group", "a", "--status", "pending"]), [json!(mine)]);
    assert_eq!(list(&["--group", "a"]), [json!(gone), json!(mine)]);
    assert_eq!(list(&["--status", "cancelled"]), [json!(gone)]);
    assert_eq!(list(&[]).len(), 3);
    let people = outbox.run(&["join", "list", "--limit", "1"]).exits(0).complains("there may be more");
    assert!(people.stdout.starts_with("ID "), "{people:#?}");
    assert!(outbox.run(&["join", "show", &mine]).done().stdout.contains("t  s3cret"));
}

/// OBX-080, OBX-097: a thing that is not there is 3, what its state forbids is 1, wrong values are 2.
#[test]
fn joins_that_are_unknown_ended_full_or_waited_for_say_so() {
    let outbox = Outbox::new();
    let join = outbox.start(&["--expected", "1"]);
    let id = outbox.step(&join);
    let extra = outbox.enqueue(&["--topic", "t", "--payload", "{}"]);
    let wait = ["join", "wait", &join, "--on-complete-topic", "t"];
    outbox.run(&wait).done();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["join", "show", "nope"], 3, "there is no join nope"),
        (&["join", "cancel", "nope"], 3, "there is no join nope"),
        (&["join", "attach", "nope", &id], 3, "there is no join nope"),
        (&["join", "wait", "nope", "--on-fail-topic", "t"], 3, "there is no join nope"),
        (&["queue", "enqueue", "--topic", "t", "--payload", "{}", "--join", "nope"], 3, "no join nope"),
        (&["join", "attach", &join, &extra], 1, "no more can be attached"),
        (&["queue", "enqueue", "--topic", "t", "--payload", "{}", "--join", &join], 1, "no more can be"),
        (&["join", "report", &join, &extra, "--failed"], 3, "is not attached"),
        (&wait, 1, "only once"),
        (&["join", "start", "--expected", "0"], 2, "expected steps is 0, allowed is 1 to 1000000"),
        (&["join", "start", "--expected", "-1"], 2, "--expected"),
        (&["join", "start", "--expected", "1", "--group", &"x".repeat(256)], 2, "at most 255"),
        (&["join", "start", "--expected", "1", "--id", &"x".repeat(37)], 2, "at most 36"),
        (&["join", "report", &join, &id], 2, "--completed"),
        (&["join", "wait", &join], 2, "--on-complete-topic"),
        (&["join", "wait", &join, "--on-complete-topic", ""], 2, "topic is empty"),
        (&["join", "list", "--status", "open"], 2, "pending, completed, failed, cancelled"),
    ];
    for (arguments, code, message) in cases {
        outbox.run(arguments).exits(*code).complains(message);
    }
    let open = outbox.start(&["--expected", "1"]);
    outbox
        .run(&["join", "attach", &open, "no-such-message"])
        .exits(3)
        .complains("no message no-such-message");
    assert_eq!(outbox.run(&["events", "list", "--json"]).done().json().as_array().unwrap().len(), 2);

    outbox.settle_all("ack");
    outbox.run(&["join", "attach", &join, &extra]).exits(1).complains("has ended: it is completed");
    outbox
        .run(&["queue", "enqueue", "--topic", "t", "--payload", "{}", "--join", &join])
        .exits(1)
        .complains("has ended");
}
