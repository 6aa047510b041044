//! The admin server: who may ask, what it answers.

use std::net::SocketAddr;

use pillarbox::model::GroupKey;
use pillarbox::port::{Cause, GroupAction, GroupChange, HeldGroups, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::kit::{Fixture, PATIENCE, Recorder, numbered, statuses, text, write};

const LOCAL: (&str, &str) = ("admin", "127.0.0.1:0");
const TOKENS: (&str, &str) = ("admin-token", TOKEN);
const TOKEN: &str = "a-token-of-the-tests";
const JSON: &str = "Content-Type: application/json\r\n";
const KNOWN: &str = "Authorization: Bearer a-token-of-the-tests\r\n";

/// An answer: status, headers, body.
struct Answered {
    status: u16,
    head: String,
    body: String,
}

async fn ask(address: SocketAddr, request: &str, headers: &str, body: &str) -> Answered {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    let length = body.len();
    let message = format!(
        "{request} HTTP/1.1\r\n{host}{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = timeout(PATIENCE, asked).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// A request with the token.
async fn get(address: SocketAddr, path: &str) -> Answered {
    ask(address, &format!("GET {path}"), KNOWN, "").await
}

/// A change with the token.
async fn post(address: SocketAddr, path: &str, headers: &str) -> Answered {
    ask(address, &format!("POST {path}"), &format!("{KNOWN}{headers}"), "{}").await
}

/// PBX-021
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_readiness_and_metrics_are_served() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 3)).await;
    let recorder = Recorder::refusing(numbered("a", 3)[1].clone());
    let mut relay = fixture.relay(&recorder, &[LOCAL]).await;
    relay.until_empty().await;
    let address = relay.admin_address().unwrap();
    assert_eq!(get(address, "/healthz").await.body, "ok\n");
    let ready = get(address, "/readyz").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    assert!(ready.head.contains("cache-control: no-store") && ready.head.contains("nosniff"));
    let metrics = get(address, "/metrics").await;
    assert!(metrics.head.contains("text/plain"));
    for line in [
        "pillarbox_delivered_total{source=\"default\",table=\"outbox_event\"} 2",
        "pillarbox_dead_total{source=\"default\",table=\"outbox_event\"} 1",
        "pillarbox_read_total{source=\"default\",table=\"outbox_event\"} ",
        "pillarbox_read_passed_total{source=\"default\",table=\"outbox_event\"} 0\n",
        "pillarbox_member{source=\"default\",table=\"outbox_event\"} 1",
        "pillarbox_slots_held{source=\"default\",table=\"outbox_event\"} 64",
        "pillarbox_breaker_open{source=\"default\",table=\"outbox_event\"} 0",
        "pillarbox_source_up{source=\"default\",table=\"outbox_event\"} 1",
        "# TYPE pillarbox_delivered_total counter",
        "# HELP pillarbox_in_memory ",
    ] {
        assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
    }
    let sources: serde_json::Value =
        serde_json::from_str(&get(address, "/api/v1/sources").await.body).unwrap();
    assert_eq!(sources[0]["standing"], "running");
    assert_eq!(sources[0]["counts"]["delivered"], 2);
    assert_eq!(get(address, "/nothing").await.status, 404);
    relay.close().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// PBX-090, PBX-021: an endpoint that fails is seen in readiness, metrics and sources, without what it said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_fails_is_told_everywhere() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 1)).await;
    let recorder = Recorder::judging(|_| Verdict::Unavailable {
        cause: Cause::Answered(401),
        error: "the endpoint answered 401: secret words".to_owned(),
        after: None,
    });
    let mut relay = fixture.relay(&recorder, &[LOCAL]).await;
    // When the second request comes, the first was judged.
    recorder.until_events(2).await;
    let address = relay.admin_address().unwrap();
    let ready = get(address, "/readyz").await;
    assert_eq!(ready.status, 200);
    assert!(ready.body.starts_with("degraded: source default: unauthorized since "), "{}", ready.body);
    let metrics = get(address, "/metrics").await.body;
    let series = |class: &str| {
        let labels = "source=\"default\",table=\"outbox_event\"";
        let name = format!("pillarbox_endpoint_failures_total{{{labels},class=\"{class}\"}} ");
        let count = metrics.lines().find_map(|line| line.strip_prefix(name.as_str()));
        count.and_then(|count| count.parse::<u64>().ok())
    };
    assert!(series("unauthorized") >= Some(1), "{metrics}");
    assert_eq!((series("refused"), series("other")), (Some(0), Some(0)));
    let sources = get(address, "/api/v1/sources").await.body;
    assert!(!sources.contains("secret words"), "{sources}");
    let sources: serde_json::Value = serde_json::from_str(&sources).unwrap();
    for failure in [&sources[0]["last_failure"], &sources[0]["engines"][0]["last_failure"]] {
        assert_eq!(failure["class"], "unauthorized");
        assert_eq!(failure["error"], "the endpoint answered 401");
        assert_eq!(failure["recovered_at"], serde_json::Value::Null);
        assert!(failure["requests"].as_u64() >= Some(1) && failure["since"].is_string(), "{failure}");
    }
    let published = async {
        loop {
            let nodes = store.admin().nodes().await.unwrap();
            let told = nodes.into_iter().find_map(|node| node.state);
            // Before the first failure is known, the node tells of no sink.
            if let Some(state) = told.filter(|state| !state.contains("\"sink\":null")) {
                break state;
            }
        }
    };
    let state = timeout(PATIENCE, published).await.expect("the node tells of its sink");
    assert!(state.len() < 4_096 && !state.contains("secret words"), "{state}");
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["sink"]["last_failure"]["class"], "unauthorized");
    assert!(state["sink"]["breaker"].is_string(), "{state}");
    relay.close().await;
    let left = relay.left().await.unwrap();
    assert_eq!((left.waiting, left.total()), (1, 1));
    assert!(relay.sources()[0].counts.endpoint_failures >= 1);
}

/// PBX-021, PBX-298: a relay whose database is away lives, is not ready, and says so of every event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_without_its_database_lives_and_is_not_ready() {
    let fixture = Fixture::sqlite();
    let flags = [LOCAL, ("database-url", "postgres://me@127.0.0.1:1/d?connect_timeout=1")];
    let mut relay = fixture.relay(&Recorder::new(), &flags).await;
    let address = relay.admin_address().unwrap();
    assert_eq!(get(address, "/healthz").await.status, 200);
    let ready = get(address, "/readyz").await;
    assert_eq!((ready.status, ready.body.as_str()), (503, "not ready\n"));
    assert_eq!(get(address, "/api/v1/sources/default/groups").await.status, 503);
    let why = get(address, "/api/v1/events/e/why").await.body;
    assert!(why.contains("\"reason\":\"source_away\""), "{why}");
    relay.close().await;
}

/// PBX-298: a relay that is switched off delivers nothing, and serves its admin address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_switched_off_only_serves_its_admin_address() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("a"), &numbered("a", 3)).await;
    let recorder = Recorder::new();
    let mut relay = fixture.relay(&recorder, &[LOCAL, ("enabled", "false")]).await;
    relay.until_empty().await;
    let address = relay.admin_address().unwrap();
    assert_eq!(get(address, "/readyz").await.status, 200);
    assert!(get(address, "/api/v1/sources").await.body.contains("\"standing\":\"off\""));
    let why = get(address, "/api/v1/events/e/why").await.body;
    assert!(why.contains("\"reason\":\"source_disabled\""), "{why}");
    relay.close().await;
    assert_eq!((recorder.events(), statuses(&store).await[0]), (0, 3));
}

/// Groups are paused, resumed, skipped and unblocked, with who did it on record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_held_and_let_go_on_record() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        let recorder = Recorder::judging(|delivery| match text(delivery).contains("poison") {
            true => Verdict::Rejected { error: "never".to_owned() },
            false => Verdict::Accepted,
        });
        let mut relay = fixture.relay(&recorder, &[LOCAL, TOKENS, ("on-dead", "block")]).await;
        let address = relay.admin_address().unwrap();
        let path = |group: &str, action: &str| format!("/api/v1/sources/default/groups/{group}/{action}");
        let actor = format!("{JSON}X-Pillarbox-Actor: ann\r\n");
        let paused = post(address, &path("Account%2F42", "pause"), &actor).await;
        assert_eq!(paused.status, 200);
        assert!(paused.body.contains("\"changed\":[\"outbox_event\"]"), "{}", paused.body);
        relay.close().await;
        // It heartbeats every twenty minutes: what it is asked to change it sees at once all the same.
        let mut relay =
            fixture.relay(&recorder, &[LOCAL, TOKENS, ("on-dead", "block"), ("lease", "1h")]).await;
        let address = relay.admin_address().unwrap();
        write(&store, Some("Account/42"), &numbered("p", 2)).await;
        write(&store, Some("b"), &["\"poison\"".to_owned(), "\"fine\"".to_owned()]).await;
        relay.until_empty().await;
        assert_eq!(statuses(&store).await, [3, 0, 0, 1]);
        let held = get(address, "/api/v1/sources/default/groups").await.body;
        let held: serde_json::Value = serde_json::from_str(&held).unwrap();
        assert!(held["next"].is_null());
        let mut held: Vec<_> =
            held["groups"].as_array().unwrap().iter().map(|held| held["state"].clone()).collect();
        held.sort_by_key(ToString::to_string);
        assert_eq!(held, ["blocked", "paused"]);
        assert_eq!(post(address, &path("b", "skip"), JSON).await.status, 200);
        assert_eq!(post(address, &path("Account%2F42", "resume"), &actor).await.status, 200);
        let nothing = post(address, &path("b", "unblock"), JSON).await;
        assert!(nothing.body.contains("\"changed\":[]"), "{}", nothing.body);
        timeout(PATIENCE, relay.until_empty()).await.expect("it sees the changes");
        relay.close().await;
        assert_eq!(statuses(&store).await, [0, 3, 0, 1]);
        let audit = store.admin().audit(10).await.unwrap();
        let by: Vec<_> = audit.iter().map(|entry| (entry.by.as_str(), entry.action.as_str())).collect();
        assert!(by.contains(&("admin/ann", "pause")) && by.contains(&("admin", "skip")), "{by:?}");
    }
}

/// PBX-153: the reason of a blocked group does not repeat what the endpoint answered; the event does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reason_of_a_blocked_group_is_not_the_endpoints_answer() {
    for fixture in Fixture::all() {
        let store = fixture.native().await;
        let recorder = Recorder::judging(|_| Verdict::Rejected {
            error: "the endpoint answered 400\nsecret words".to_owned(),
        });
        let mut relay = fixture.relay(&recorder, &[LOCAL, TOKENS, ("on-dead", "block")]).await;
        write(&store, Some("g"), &numbered("p", 2)).await;
        relay.until_empty().await;
        let address = relay.admin_address().unwrap();
        let held = get(address, "/api/v1/sources/default/groups").await.body;
        assert!(held.contains("the endpoint answered 400") && !held.contains("secret words"), "{held}");
        relay.close().await;
        let held = store.admin().groups(HeldGroups::first()).await.unwrap();
        assert_eq!(held[0].reason.as_deref(), Some("the endpoint answered 400"));
        let shown = store.admin().show(held[0].event.clone().unwrap()).await.unwrap().unwrap();
        assert!(format!("{shown:?}").contains("secret words"), "kept with the event");
    }
}

/// What does not know the token, comes from elsewhere or is no JSON changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    let mut relay = fixture.relay(&Recorder::new(), &[LOCAL, TOKENS]).await;
    let address = relay.admin_address().unwrap();
    let path = "/api/v1/sources/default/groups/g/pause";
    let known = format!("Authorization: Bearer {TOKEN}\r\n");
    for (path, status) in [("/healthz", 200), ("/metrics", 401), ("/api/v1/sources", 401), (path, 401)] {
        assert_eq!(ask(address, &format!("GET {path}"), "", "").await.status, status, "{path}");
    }
    for (headers, status) in [
        (JSON.to_owned(), 401),
        (format!("{JSON}Authorization: Bearer wrong\r\n"), 401),
        (format!("{JSON}Authorization: Basic {TOKEN}\r\n"), 401),
        (known.clone(), 415),
        (format!("{known}Content-Type: text/plain\r\n"), 415),
        (format!("{known}{JSON}Origin: https://evil.example\r\n"), 403),
        (format!("{known}{JSON}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{known}{JSON}Host: evil.example\r\n"), 421),
    ] {
        assert_eq!(ask(address, &format!("POST {path}"), &headers, "{}").await.status, status, "{headers}");
    }
    let headers = format!("{known}{JSON}");
    assert_eq!(ask(address, &format!("PUT {path}"), &headers, "{}").await.status, 405);
    assert_eq!(ask(address, &format!("POST {path}"), &headers, "{\"who\":1}").await.status, 400);
    let huge = format!("{{\"reason\":\"{}\"}}", "x".repeat(20_000));
    assert_eq!(ask(address, &format!("POST {path}"), &headers, &huge).await.status, 413);
    assert_eq!(post(address, "/api/v1/sources/default/groups/g/explode", JSON).await.status, 404);
    assert_eq!(post(address, "/api/v1/sources/nobody/groups/g/pause", JSON).await.status, 404);
    // PBX-160: whatever refuses a request, the answer is JSON.
    for (request, body, status) in [
        (format!("POST {path}"), huge.as_str(), 413),
        ("POST /api/v1/sources/default/groups/%ff/pause".to_owned(), "{}", 400),
        ("GET /api/v1/sources/%ff/groups".to_owned(), "", 400),
        ("POST /metrics".to_owned(), "{}", 405),
        (format!("PUT {path}"), "{}", 405),
        ("GET /nothing".to_owned(), "", 404),
    ] {
        let answer = ask(address, &request, &headers, body).await;
        assert_eq!(answer.status, status, "{request}");
        let json: serde_json::Value = serde_json::from_str(&answer.body).expect(&answer.body);
        assert!(json["error"].as_str().is_some_and(|error| !error.is_empty()), "{request}: {json}");
    }
    assert_eq!(store.admin().groups(HeldGroups::first()).await.unwrap(), []);
    let origin = format!("{JSON}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(post(address, path, &origin).await.status, 200);
    assert_eq!(get(address, "/metrics").await.status, 200);
    relay.close().await;
}

/// PBX-290: on a loopback address too, a change needs the token of an operator. Other tokens do what they are for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_needs_the_token_of_an_operator_also_on_loopback() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    let path = "/api/v1/sources/default/groups/g/pause";
    let pause = |address, headers: String| async move {
        ask(address, &format!("POST {path}"), &format!("{JSON}{headers}"), "{}").await.status
    };
    let mut relay = fixture.relay(&Recorder::new(), &[LOCAL]).await;
    let address = relay.admin_address().unwrap();
    assert_eq!(ask(address, "GET /api/v1/sources", "", "").await.status, 200);
    assert_eq!(pause(address, String::new()).await, 403);
    relay.close().await;
    let (viewer, metrics) = ("a-viewer-of-the-tests", "metrics-of-the-tests");
    let flags = [LOCAL, TOKENS, ("admin-viewer-token", viewer), ("admin-metrics-token", metrics)];
    let mut relay = fixture.relay(&Recorder::new(), &flags).await;
    let address = relay.admin_address().unwrap();
    let of = |token: &str| format!("Authorization: Bearer {token}\r\n");
    for (token, reads, scrapes, changes) in
        [(viewer, 200, 200, 403), (metrics, 403, 200, 403), (TOKEN, 200, 200, 200)]
    {
        assert_eq!(ask(address, "GET /api/v1/sources", &of(token), "").await.status, reads, "{token}");
        assert_eq!(ask(address, "GET /metrics", &of(token), "").await.status, scrapes, "{token}");
        assert_eq!(pause(address, of(token)).await, changes, "{token}");
    }
    relay.close().await;
    assert_eq!(store.admin().groups(HeldGroups::first()).await.unwrap().len(), 1);
}

/// Asks for a page and tells its groups and what comes next.
async fn page(address: SocketAddr, query: &str) -> (Vec<String>, serde_json::Value) {
    let answer = get(address, &format!("/api/v1/sources/default/groups{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let page: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let groups = page["groups"].as_array().unwrap().iter();
    (groups.map(|held| held["group"].as_str().unwrap().to_owned()).collect(), page["next"].clone())
}

/// PBX-100
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_answered_in_pages() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    for n in 0..250 {
        let group = GroupKey::new(format!("order/{n:03}"));
        let (action, by) = (GroupAction::Pause, "test".to_owned());
        store.admin().change_group(GroupChange { group, action, reason: None, by, now: None }).await.unwrap();
    }
    let mut relay = fixture.relay(&Recorder::new(), &[LOCAL]).await;
    let address = relay.admin_address().unwrap();
    let (first, next) = page(address, "").await;
    assert_eq!((first.len(), first[0].as_str()), (100, "order/000"));
    assert_eq!(next, serde_json::json!({"table": "outbox_event", "after": "order/099"}));
    let (last, next) = page(address, "?table=outbox_event&after=order%2F099&limit=150").await;
    assert_eq!((last.len(), last[149].as_str(), next.is_null()), (150, "order/249", true));
    let (some, next) = page(address, "?limit=1&after=order%2F100").await;
    assert_eq!((some, &next["after"]), (vec!["order/101".to_owned()], &"order/101".into()));
    for query in ["?limit=0", "?limit=1001", "?limit=-1", "?after=%00", "?table=other", "?page=2"] {
        let refused = get(address, &format!("/api/v1/sources/default/groups{query}")).await;
        assert_eq!(refused.status, 400, "{query}");
        assert!(refused.body.contains("error"), "{}", refused.body);
    }
    relay.close().await;
}

/// PBX-101
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_no_group_can_have_are_refused() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    let mut relay = fixture.relay(&Recorder::new(), &[LOCAL, TOKENS]).await;
    let address = relay.admin_address().unwrap();
    let path = |group: &str| format!("/api/v1/sources/default/groups/{group}/pause");
    for (group, why) in [
        ("x".repeat(256).as_str(), "255"),
        ("a%00b", "a control character"),
        ("a%0Ab", "a control character"),
    ] {
        let refused = post(address, &path(group), JSON).await;
        assert_eq!(refused.status, 400, "{group}");
        assert!(refused.body.contains(why), "{}", refused.body);
    }
    let reason = "{\"reason\":\"a\\u0000b\"}";
    let headers = format!("{KNOWN}{JSON}");
    assert_eq!(ask(address, &format!("POST {}", path("g")), &headers, reason).await.status, 400);
    assert_eq!(store.admin().groups(HeldGroups::first()).await.unwrap(), []);
    // No event of it was written yet: it is held from its first one on.
    assert_eq!(post(address, &path(&"x".repeat(255)), JSON).await.status, 200);
    relay.close().await;
}
