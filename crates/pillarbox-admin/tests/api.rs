//! The admin API as a caller sees it: who may call a route, and what it answers.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use pillarbox::Event;
use pillarbox::memory::MemoryStore;
use pillarbox::model::{GroupKey, NewRow, Placement, Token};
use pillarbox::port::{AnyTable, Change, Counts, Fence, OnDone, Outcome, Settle, Store, Table as _, Write};
use pillarbox_admin::{
    AccessTokens, AdminApi, AdminCaller, AdminRole, AdminTokens, RouteRole, TableSources, document, matrix,
};
use pillarbox_sqlite::SqliteStore;
use serde_json::{Value, json};
use tower_service::Service as _;

const OPERATOR: &str = "an-operator-of-the-tests";
const VIEWER: &str = "a-viewer-of-the-tests";
const METRICS: &str = "metrics-of-the-tests";
const SECRET: &str = "s3cret";

/// An API over one table with a dead event `dead`, which blocks the group `a`, and a pending event `new`.
struct Fixture {
    router: Router,
    table: AnyTable,
    /// The folder of the database, if it has one.
    _folder: Option<tempfile::TempDir>,
}

impl Fixture {
    /// One for each kind of store that needs no server.
    async fn all() -> Vec<Self> {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = SqliteStore::open(folder.path().join("outbox.db")).unwrap();
        sqlite.admin().migrate().await.unwrap();
        vec![
            Self::on(Arc::new(MemoryStore::new()), None).await,
            Self::on(Arc::new(sqlite), Some(folder)).await,
        ]
    }

    async fn on(store: Arc<dyn Store>, folder: Option<tempfile::TempDir>) -> Self {
        let table = AnyTable::from(store);
        let row = |id: &str| {
            let event = Event::text("order.placed", json!({"note": SECRET}).to_string()).id(id).group("a");
            NewRow { event: event.build().unwrap(), placement: Placement::Slot }
        };
        let rows = vec![row("dead"), row("new")];
        let written = table.write(Write { rows, now: None }).await.unwrap();
        let change = Change::Dead {
            error: format!("the endpoint answered 400\n{SECRET}"),
            counts: Counts::Made(1),
            blocks: Some(GroupKey::new("a")),
        };
        let outcome = Outcome { seq: written[0].seq, id: written[0].id.clone(), token: Token(0), change };
        let outcomes: Arc<[Outcome]> = Arc::new([outcome]);
        let settle = Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, repeats: None, now: None };
        assert!(table.settle(settle).await.unwrap().stale.is_empty());
        let token = |text| AccessTokens::parse(text).unwrap();
        let tokens =
            AdminTokens { operator: token(OPERATOR), viewer: token(VIEWER), metrics: token(METRICS) };
        let sources = TableSources::new([("orders".to_owned(), "outbox_event".to_owned(), table.clone())]);
        Self { router: AdminApi::new(sources).tokens(tokens).router(), table, _folder: folder }
    }

    async fn ask(&self, method: &str, path: &str, token: Option<&str>, body: &Value) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if method == "POST" {
            request = request.header("content-type", "application/json").header("x-pillarbox-actor", "ann");
        }
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let answer = self.router.clone().call(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn get(&self, path: &str, token: &str) -> Value {
        let (status, answer) = self.ask("GET", path, Some(token), &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask("POST", path, Some(OPERATOR), body).await
    }
}

/// A path of the list of routes with its parameters filled in. Nothing of it is there, so that nothing changes.
fn concrete(path: &str) -> String {
    path.replace("{source}", "orders")
        .replace("{group}", "z")
        .replace("{action}", "resume")
        .replace("{id}", "nothing")
}

/// PBX-201
#[tokio::test]
async fn every_route_is_served_to_its_role_and_refused_to_lesser_ones() {
    let callers = [
        (AdminRole::Anyone, None),
        (AdminRole::Metrics, Some(METRICS)),
        (AdminRole::Viewer, Some(VIEWER)),
        (AdminRole::Operator, Some(OPERATOR)),
    ];
    for fixture in Fixture::all().await {
        for route in matrix() {
            for (role, token) in callers {
                let path = concrete(route.path);
                let body = json!({});
                let (status, answer) = fixture.ask(&route.method, &path, token, &body).await;
                let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
                assert_eq!(refused, role < route.role, "{} {path} as {role:?}: {answer}", route.method);
                assert!(!status.is_server_error(), "{path}: {answer}");
            }
        }
    }
}

/// PBX-201: a route that changes something is for operators, whatever else is true of it.
#[test]
fn only_operators_change_anything() {
    for route in matrix() {
        assert_eq!(route.method == "POST", route.role == AdminRole::Operator, "{}", route.path);
    }
}

/// PBX-201: the page lists every route with its role, and no other.
#[test]
fn the_page_of_routes_is_that_of_the_router() {
    let page = include_str!("../../../docs/reference/admin-api.md");
    let document = document();
    let line = |route: &RouteRole| {
        let summary = &document["paths"][route.path][route.method.to_ascii_lowercase()]["summary"];
        let (method, path, role) = (&route.method, route.path, route.role.as_str());
        format!("| `{method} {path}` | {role} | {} |", summary.as_str().unwrap())
    };
    let made: Vec<String> = matrix().iter().map(line).collect();
    let written: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(written, made);
}

/// Checks a value against the part of JSON Schema that the document uses.
fn check(at: &str, value: &Value, schema: &Value) {
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return,
    };
    let fits = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: the test does not know the type {other}"),
    };
    assert!(kinds.iter().any(fits), "{at}: {value} is not {kinds:?}");
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&format!("{at}[{place}]"), item, &schema["items"]);
    }
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(object.contains_key(name), "{at}: {name} is missing");
        }
        for (name, field) in object {
            let schema = properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
            check(&format!("{at}.{name}"), field, schema);
        }
    }
}

/// PBX-203
#[tokio::test]
async fn answers_are_what_the_document_describes() {
    let document = document();
    for fixture in Fixture::all().await {
        for route in matrix().into_iter().filter(|route| route.path.starts_with("/api/")) {
            let (path, body) = match route.path {
                "/api/v1/events/{id}" => ("/api/v1/events/dead".to_owned(), json!({})),
                "/api/v1/events/{id}/why" => ("/api/v1/events/new/why".to_owned(), json!({})),
                "/api/v1/joins/{id}" => continue,
                "/api/v1/events/{id}/cancel" => ("/api/v1/events/new/cancel".to_owned(), json!({})),
                "/api/v1/dead/replay" | "/api/v1/dead/discard" => {
                    (route.path.to_owned(), json!({"all": true, "dry_run": true}))
                }
                path => (concrete(path).replace("/z/resume", "/z/pause"), json!({})),
            };
            let (status, answer) = fixture.ask(&route.method, &path, Some(OPERATOR), &body).await;
            assert_eq!(status, StatusCode::OK, "{path}: {answer}");
            let method = route.method.to_ascii_lowercase();
            let described = &document["paths"][route.path][&method]["responses"]["200"];
            check(&path, &answer, &described["content"]["application/json"]["schema"]);
        }
    }
}

/// PBX-201
#[tokio::test]
async fn contents_are_for_operators() {
    for fixture in Fixture::all().await {
        for path in ["/api/v1/events/dead", "/api/v1/events", "/api/v1/dead"] {
            let seen = fixture.get(path, VIEWER).await.to_string();
            assert!(seen.contains("the endpoint answered 400") && !seen.contains(SECRET), "{path}: {seen}");
        }
        let shown = fixture.get("/api/v1/events/dead", OPERATOR).await;
        assert!(shown["contents"]["text"].as_str().unwrap().contains(SECRET), "{shown}");
        assert!(shown["failures"][0]["error"].as_str().unwrap().contains(SECRET), "{shown}");
        assert_eq!(fixture.get("/api/v1/events/dead", VIEWER).await["contents_hidden"], true);
    }
}

/// PBX-204
#[tokio::test]
async fn a_dead_event_is_found_by_its_cause_counted_replayed_and_audited() {
    for fixture in Fixture::all().await {
        let dead = fixture.get("/api/v1/dead", VIEWER).await;
        assert_eq!(
            (&dead["groups"][0]["count"], &dead["groups"][0]["error"]),
            (&json!(1), &json!("the endpoint answered 400"))
        );
        let (_, counted) = fixture.post("/api/v1/dead/replay", &json!({"all": true, "dry_run": true})).await;
        assert_eq!((&counted["matched"], &counted["changed"]), (&json!(1), &json!(0)));
        let (status, _) = fixture.post("/api/v1/dead/replay", &json!({})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let (_, replayed) = fixture.post("/api/v1/dead/replay", &json!({"ids": ["dead"]})).await;
        assert_eq!(replayed["changed"], 1);
        assert_eq!(fixture.get("/api/v1/dead", VIEWER).await["groups"], json!([]));
        let audit = fixture.table.admin().audit(10).await.unwrap();
        assert!(
            audit.iter().any(|entry| (&*entry.by, &*entry.action) == ("admin/ann", "replay")),
            "{audit:?}"
        );
    }
}

/// PBX-298
#[tokio::test]
async fn viewers_are_told_why_an_event_waits_and_nothing_of_its_payload() {
    for fixture in Fixture::all().await {
        let told = fixture.get("/api/v1/events/new/why", VIEWER).await;
        assert_eq!((&told["reason"], &told["chain"][1]["event"]), (&json!("group_blocked"), &json!("dead")));
        assert_eq!(told["chain"][1]["reason"], "dead");
        assert_eq!(told["further"][0]["reason"], "no_node");
        assert!(told["advice"][1].as_str().unwrap().ends_with("pillarbox groups unblock a"), "{told}");
        assert!(!told.to_string().contains(SECRET), "{told}");
        let dead = fixture.get("/api/v1/events/dead/why", VIEWER).await;
        assert_eq!(dead["reason"], "dead");
        assert!(!dead.to_string().contains(SECRET), "{dead}");
        let (status, _) = fixture.post("/api/v1/dead/discard", &json!({"ids": ["dead"]})).await;
        assert_eq!(status, StatusCode::OK);
        let discarded = fixture.get("/api/v1/events/dead/why", VIEWER).await;
        assert_eq!(discarded["reason"], "discarded");
        assert!(discarded["sentence"].as_str().unwrap().contains("admin/ann"), "{discarded}");
        let nowhere = "/api/v1/events/nothing/why";
        let (status, answer) = fixture.ask("GET", nowhere, Some(VIEWER), &Value::Null).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(answer["error"].as_str().unwrap().starts_with("there is no such event"), "{answer}");
    }
}

/// PBX-201
#[tokio::test]
async fn bad_input_is_refused_with_what_to_do() {
    for fixture in Fixture::all().await {
        for (path, status) in [
            ("/api/v1/events/nothing", StatusCode::NOT_FOUND),
            ("/api/v1/events?status=lost", StatusCode::BAD_REQUEST),
            ("/api/v1/events?limit=0", StatusCode::BAD_REQUEST),
            ("/api/v1/events?limit=201", StatusCode::BAD_REQUEST),
            ("/api/v1/events?after=x", StatusCode::BAD_REQUEST),
            ("/api/v1/events?nothing=1", StatusCode::BAD_REQUEST),
            ("/api/v1/events?type=%00", StatusCode::BAD_REQUEST),
            ("/api/v1/events?source=nothing", StatusCode::NOT_FOUND),
            ("/api/v1/nothing", StatusCode::NOT_FOUND),
        ] {
            let (answered, body) = fixture.ask("GET", path, Some(VIEWER), &Value::Null).await;
            assert_eq!(answered, status, "{path}: {body}");
            assert!(body["error"].is_string(), "{path}: {body}");
        }
        let past_the_end = fixture.get("/api/v1/events?after=999999.zzz&order=oldest", VIEWER).await;
        assert_eq!((&past_the_end["events"], &past_the_end["next"]), (&json!([]), &Value::Null));
    }
}

/// PBX-291: a service mounts the router below a path, and says who its callers are.
#[tokio::test]
async fn a_service_mounts_the_router_and_says_who_calls() {
    let Fixture { table, .. } = Fixture::on(Arc::new(MemoryStore::new()), None).await;
    let sources = TableSources::new([("orders".to_owned(), "outbox_event".to_owned(), table.clone())]);
    let mut service = Router::new()
        .route("/orders", axum::routing::get(|| async { "the service's own" }))
        .nest("/outbox", AdminApi::new(sources).known_callers_only().router());
    let mut ask = async |method: &str, path: &str, caller: Option<AdminRole>| {
        let mut request =
            Request::builder().method(method).uri(path).header("content-type", "application/json");
        if let Some(role) = caller {
            request = request.extension(AdminCaller { role, name: "eve".to_owned() });
        }
        service.call(request.body(Body::from("{}")).unwrap()).await.unwrap().status()
    };
    let pause = "/outbox/api/v1/sources/orders/groups/g/pause";
    assert_eq!(ask("GET", "/orders", None).await, StatusCode::OK);
    assert_eq!(ask("GET", "/outbox/api/v1/events/new", Some(AdminRole::Viewer)).await, StatusCode::OK);
    assert_eq!(ask("GET", "/outbox/api/v1/nothing", Some(AdminRole::Viewer)).await, StatusCode::NOT_FOUND);
    assert_eq!(ask("GET", "/outbox/api/v1/stats", Some(AdminRole::Anyone)).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("GET", "/outbox/healthz", None).await, StatusCode::OK);
    assert_eq!(ask("GET", "/outbox/api/v1/events/new", None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(ask("POST", pause, None).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", pause, Some(AdminRole::Viewer)).await, StatusCode::FORBIDDEN);
    assert_eq!(ask("POST", pause, Some(AdminRole::Operator)).await, StatusCode::OK);
    let audit = table.admin().audit(1).await.unwrap();
    assert_eq!((audit[0].by.as_str(), audit[0].action.as_str()), ("admin/eve", "pause"));
}

/// PBX-200: only wrong tokens wait, so that guessing shuts nobody out.
#[tokio::test(start_paused = true)]
async fn a_right_token_is_answered_while_wrong_ones_wait() {
    let fixture = Fixture::on(Arc::new(MemoryStore::new()), None).await;
    let wrong = || fixture.ask("GET", "/api/v1/nodes", Some("a-wrong-token-of-the-tests"), &Value::Null);
    let (waiting, right) = tokio::join!(
        async {
            tokio::join!(wrong(), wrong(), wrong(), wrong(), wrong(), wrong(), wrong(), wrong(), wrong())
        },
        fixture.get("/api/v1/nodes", VIEWER),
    );
    assert!(right.is_object(), "{right}");
    let first = waiting.0.0;
    assert_eq!((first, waiting.8.0), (StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS));
}

/// PBX-201
#[tokio::test]
async fn a_web_page_of_another_site_changes_nothing() {
    let fixture = Fixture::on(Arc::new(MemoryStore::new()), None).await;
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let request = Request::post("/api/v1/dead/replay")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {OPERATOR}"))
            .header("content-type", "application/json")
            .header(name, value)
            .body(Body::from(r#"{"all":true}"#))
            .unwrap();
        let answer = fixture.router.clone().call(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name}");
    }
    assert_eq!(fixture.get("/api/v1/dead", VIEWER).await["groups"][0]["count"], 1);
}
