//! The one list of routes, and the router made from it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use axum::{Json, Router};
use serde_json::Value;
use tokio::time::timeout;

use crate::api::{audit, dead, events, groups, health, joins, nodes, sources, stats, why};
use crate::call::{Call, Param};
use crate::described::Described;
use crate::guard::{Admitted, Guard};
use crate::refusal::{Refusal, bad, refusal};
use crate::roles::{AdminRole, AdminTokens};
use crate::sources::AdminSources;
use crate::state::AdminState;
use crate::why::Explanation;

/// Timeout of a request, including its body.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);
/// Maximum size of a request body.
const BODY_BYTES: usize = 16 * 1_024;

/// A good answer.
pub(crate) enum Reply {
    Json(Value),
    /// Status, content type and text.
    Text(StatusCode, &'static str, String),
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Reply, Refusal>> + Send + 'a>>;
type Handler = for<'a> fn(&'a AdminState, &'a Call) -> Answering<'a>;

/// One route: what it is called by, who may call it, and what it takes and answers.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) role: AdminRole,
    pub(crate) summary: &'static str,
    pub(crate) query: &'static [Param],
    /// The schema of the body.
    pub(crate) body: Option<fn() -> Value>,
    /// The schema of the answer; `None` for text.
    pub(crate) answer: Option<fn() -> Value>,
    handler: Handler,
}

/// Makes a handler whose answer has the type that the document describes.
macro_rules! route {
    (GET $path:literal $role:ident [$($param:expr),*] $handler:path => text: $summary:literal) => {
        Route { method: Method::GET, path: $path, role: AdminRole::$role, summary: $summary, query: &[$($param),*],
            body: None, answer: None, handler: |state, call| Box::pin($handler(state, call)) }
    };
    (GET $path:literal $role:ident [$($param:expr),*] $handler:path => $answer:ty: $summary:literal) => {
        Route { method: Method::GET, path: $path, role: AdminRole::$role, summary: $summary, query: &[$($param),*],
            body: None, answer: Some(<$answer as Described>::schema),
            handler: |state, call| Box::pin(async move {
                let answer: $answer = $handler(state, call).await?;
                json(&answer)
            }) }
    };
    (POST $path:literal $role:ident [$($param:expr),*] $body:ty, $handler:path => $answer:ty: $summary:literal) => {
        Route { method: Method::POST, path: $path, role: AdminRole::$role, summary: $summary, query: &[$($param),*],
            body: Some(<$body as Described>::schema), answer: Some(<$answer as Described>::schema),
            handler: |state, call| Box::pin(async move {
                let answer: $answer = $handler(state, call, call.body::<$body>()?).await?;
                json(&answer)
            }) }
    };
}

const SOURCE: Param = Param("source", "Name of a source; by default all, or the only one.");
const TABLE: Param = Param("table", "Name of a table of the source.");
const LIMIT: Param = Param("limit", "Maximum number of entries.");
const AFTER: Param = Param("after", "`next` of the page before.");
const STATUS: Param = Param("status", "new, retry, pending (new or retry), done or dead.");
const TYPE: Param = Param("type", "Event type.");
const AGGREGATE_TYPE: Param = Param("aggregate_type", "Aggregate type.");
const GROUP: Param = Param("group", "Group.");
const ORDER: Param = Param("order", "newest (the default) or oldest first.");
const GROUP_AFTER: Param =
    Param("after", "The last group of the page before, in the table that `next` names.");
const JOIN_STATUS: Param = Param("status", "Status of the join.");
const GROUPING_KEY: Param = Param("grouping_key", "Grouping key of the join.");

/// All routes.
#[rustfmt::skip]
pub(crate) static ROUTES: &[Route] = &[
    route!(GET "/healthz" Anyone [] health::alive => text: "Whether the process lives."),
    route!(GET "/readyz" Anyone [] health::ready => text: "Whether every source runs and its database answers."),
    route!(GET "/metrics" Metrics [] health::metrics => text: "Metrics in the text format of Prometheus."),
    route!(GET "/api/v1/openapi.json" Viewer [] health::openapi => Value: "The OpenAPI document of these routes."),
    route!(GET "/api/v1/sources" Viewer [] sources::list => Vec<sources::SourceView>: "The sources, the state of their engines and the last failure of their sinks."),
    route!(GET "/api/v1/stats" Viewer [SOURCE, TABLE] stats::read => stats::StatsPage: "Counts and ages of each table."),
    route!(GET "/api/v1/events" Viewer [SOURCE, TABLE, STATUS, TYPE, AGGREGATE_TYPE, GROUP, ORDER, AFTER, LIMIT] events::list => events::EventPage: "A page of events, without their contents."),
    route!(GET "/api/v1/events/{id}" Viewer [SOURCE, TABLE] events::show => events::EventDetail: "One event with its failed attempts; its contents for operators."),
    route!(GET "/api/v1/events/{id}/why" Viewer [SOURCE, TABLE] why::why => Explanation: "Why an event is not delivered: the reason, its evidence, what to do, and the events that it waits for."),
    route!(POST "/api/v1/events/{id}/cancel" Operator [SOURCE, TABLE] events::CancelBody, events::cancel => events::CancelledEvent: "Deletes a pending event that is not being delivered."),
    route!(GET "/api/v1/dead" Viewer [SOURCE, TABLE, TYPE, AGGREGATE_TYPE] dead::grouped => dead::DeadGroups: "Dead events grouped by type and error, the most frequent first."),
    route!(POST "/api/v1/dead/replay" Operator [SOURCE, TABLE] dead::DeadBody, dead::replay => dead::DeadChanged: "Makes dead events pending again."),
    route!(POST "/api/v1/dead/discard" Operator [SOURCE, TABLE] dead::DeadBody, dead::discard => dead::DeadChanged: "Deletes dead events."),
    route!(GET "/api/v1/sources/{source}/groups" Viewer [TABLE, GROUP_AFTER, LIMIT] groups::list => groups::GroupPage: "A page of the groups that are blocked or paused."),
    route!(POST "/api/v1/sources/{source}/groups/{group}/{action}" Operator [] groups::GroupActionBody, groups::change => groups::GroupChanged: "Pauses, resumes, unblocks or skips a group: {action} is pause, resume, unblock or skip."),
    route!(GET "/api/v1/nodes" Viewer [SOURCE, TABLE] nodes::list => nodes::NodesPage: "The nodes of each table, their leases, slots and sinks."),
    route!(GET "/api/v1/joins" Viewer [SOURCE, TABLE, JOIN_STATUS, GROUPING_KEY, LIMIT] joins::list => joins::JoinPage: "The newest joins of the queue."),
    route!(GET "/api/v1/joins/{id}" Viewer [SOURCE, TABLE, LIMIT] joins::show => joins::JoinDetail: "One join and its members."),
    route!(GET "/api/v1/audit" Viewer [SOURCE, TABLE, LIMIT] audit::list => audit::AuditPage: "The newest changes and who made them."),
];

/// A route and the role that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRole {
    /// The method.
    pub method: String,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// The least role that may call it.
    pub role: AdminRole,
}

/// Every route of the router with its role.
#[must_use]
pub fn matrix() -> Vec<RouteRole> {
    let of =
        |route: &Route| RouteRole { method: route.method.to_string(), path: route.path, role: route.role };
    ROUTES.iter().map(of).collect()
}

fn json(answer: &impl serde::Serialize) -> Result<Reply, Refusal> {
    let value = serde_json::to_value(answer);
    value.map(Reply::Json).map_err(|error| {
        tracing::error!(%error, "an answer has no JSON form");
        refusal(StatusCode::INTERNAL_SERVER_ERROR, "the answer has no JSON form")
    })
}

/// The admin API of some sources.
pub struct AdminApi {
    sources: Arc<dyn AdminSources>,
    tokens: AdminTokens,
    local_only: bool,
    without_token: AdminRole,
}

impl AdminApi {
    /// Without tokens: every caller may read, and none may change anything.
    #[must_use]
    pub fn new(sources: impl AdminSources) -> Self {
        let (tokens, without_token) = (AdminTokens::default(), AdminRole::Viewer);
        Self { sources: Arc::new(sources), tokens, local_only: false, without_token }
    }

    /// For a service that authenticates callers itself: only requests with an
    /// [`AdminCaller`](crate::AdminCaller) are answered, apart from health.
    #[must_use]
    pub fn known_callers_only(self) -> Self {
        Self { without_token: AdminRole::Anyone, ..self }
    }

    /// Sets the tokens.
    #[must_use]
    pub fn tokens(self, tokens: AdminTokens) -> Self {
        Self { tokens, ..self }
    }

    /// Refuses requests whose Host header names another machine, against DNS rebinding.
    #[must_use]
    pub fn local_only(self) -> Self {
        Self { local_only: true, ..self }
    }

    /// The router. Its paths begin with `/healthz`, `/readyz`, `/metrics` and `/api/v1`.
    pub fn router(self) -> Router {
        let guard = Guard::new(self.local_only, self.tokens, self.without_token);
        let state = Arc::new(AdminState::new(self.sources, guard));
        let mut router = Router::new();
        for route in ROUTES {
            let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
            let serve = move |State(state): State<Arc<AdminState>>,
                              path: Result<RawPathParams, RawPathParamsRejection>,
                              request: Request| async move {
                finished(serve(route, &state, path, request).await)
            };
            router = router.route(route.path, on(filter, serve));
        }
        router
            .fallback(|state: State<Arc<AdminState>>, request: Request| async move {
                finished(lost(&state, request, StatusCode::NOT_FOUND, "there is nothing here").await)
            })
            .method_not_allowed_fallback(|state: State<Arc<AdminState>>, request: Request| async move {
                let why = "this address is served for another method";
                finished(lost(&state, request, StatusCode::METHOD_NOT_ALLOWED, why).await)
            })
            .with_state(state)
    }
}

/// Refuses a request that no route serves; callers without a token do not learn which routes there are.
async fn lost(
    state: &AdminState,
    request: Request,
    status: StatusCode,
    why: &'static str,
) -> Result<Reply, Refusal> {
    let (mut parts, _) = request.into_parts();
    parts.method = Method::GET;
    state.guard.admit(AdminRole::Metrics, &parts).await?;
    Err(refusal(status, why))
}

async fn serve(
    route: &'static Route,
    state: &AdminState,
    path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Reply, Refusal> {
    let (parts, body) = request.into_parts();
    let Admitted { role, actor } = state.guard.admit(route.role, &parts).await?;
    let path = path.map_err(|_| bad("the path has bytes that are no text"))?;
    let path: BTreeMap<String, String> =
        path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = query(route, &parts.uri)?;
    let answer = async {
        let body = to_bytes(body, BODY_BYTES).await;
        let body = body.map_err(|_| {
            refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 KiB, or broke off")
        })?;
        // Health does not wait for requests that use a database.
        let _room = match route.role {
            AdminRole::Anyone => None,
            _ => state.room.acquire().await.ok(),
        };
        let call = Call { path, query, body, role, actor };
        (route.handler)(state, &call).await
    };
    let late =
        || refusal(StatusCode::SERVICE_UNAVAILABLE, "it took too long: the database may be away or busy");
    timeout(LONGEST_REQUEST, answer).await.map_err(|_| late())?
}

/// The query, of which the route knows every name.
fn query(route: &Route, uri: &axum::http::Uri) -> Result<BTreeMap<String, String>, Refusal> {
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Err(bad("the query is no text of the form name=value"));
    };
    let mut query = BTreeMap::new();
    for (name, value) in pairs {
        if !route.query.iter().any(|param| param.0 == name) {
            let known: Vec<&str> = route.query.iter().map(|param| param.0).collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return Err(bad(format!("a query has {known}, and no more")));
        }
        if value.contains('\0') {
            return Err(bad(format!("`{name}` has a NUL character in it")));
        }
        query.insert(name, value);
    }
    Ok(query)
}

/// The response, which nobody may cache.
fn finished(result: Result<Reply, Refusal>) -> Response {
    let mut response = match result {
        Ok(Reply::Json(value)) => Json(value).into_response(),
        Ok(Reply::Text(status, kind, text)) => (status, [(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
