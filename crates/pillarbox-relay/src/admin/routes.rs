//! What the admin server answers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pillarbox::model::GroupKey;
use pillarbox::port::{GroupAction, GroupChange, GroupState, HeldGroup};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::guard::{Guard, guard};
use super::refusal::{Refusal, refusal};
use crate::failures::LastFailure;
use crate::metrics::text;
use crate::relay::{Shared, SourceReport};
use crate::source::{Health, Part, Source, Standing};

/// The largest body of a request.
const BODY_BYTES: usize = 16 * 1_024;
/// How long a store may take to say that it is there.
const ANSWER: Duration = Duration::from_secs(2);
/// How long an answer to `/readyz` holds, so that asking often costs the database nothing.
const READY_FOR: Duration = Duration::from_millis(500);
/// Who did it, in the words of the caller.
const ACTOR: &str = "x-pillarbox-actor";

/// What routes see.
struct Desk {
    shared: Arc<Shared>,
    ready: tokio::sync::Mutex<Option<(Instant, Readiness)>>,
}

/// The routes behind their guard.
pub(super) fn router(shared: Arc<Shared>, judge: Guard) -> Router {
    let desk = Arc::new(Desk { shared, ready: tokio::sync::Mutex::new(None) });
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/sources", get(sources))
        .route("/api/v1/sources/{name}/groups", get(groups))
        .route("/api/v1/sources/{name}/groups/{group}/{action}", post(change))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is nothing here") })
        .with_state(desk)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn_with_state(judge, guard))
}

async fn ready(State(desk): State<Arc<Desk>>) -> Response {
    // One caller looks, the others wait for what it finds.
    let mut known = desk.ready.lock().await;
    let readiness = match &*known {
        Some((at, readiness)) if at.elapsed() < READY_FOR => readiness.clone(),
        _ => {
            let readiness = Readiness::of(&desk.shared).await;
            *known = Some((Instant::now(), readiness.clone()));
            readiness
        }
    };
    match readiness {
        Readiness::Ready => "ready\n".into_response(),
        // A restart would not repair an endpoint, so it is ready all the same.
        Readiness::Degraded(why) => format!("degraded: {why}\n").into_response(),
        Readiness::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

/// What `/readyz` answers.
#[derive(Clone)]
enum Readiness {
    Ready,
    /// It runs, but some endpoints fail.
    Degraded(String),
    NotReady,
}

impl Readiness {
    async fn of(shared: &Shared) -> Self {
        if !is_ready(shared).await {
            return Self::NotReady;
        }
        let failing = shared.sources.iter().filter_map(|source| {
            let failure = source.last_failure().filter(|failure| failure.recovered_at.is_none())?;
            Some(format!("source {}: {} since {}", source.config.name, failure.class, failure.since))
        });
        let failing: Vec<String> = failing.collect();
        if failing.is_empty() { Self::Ready } else { Self::Degraded(failing.join("; ")) }
    }
}

/// Every source runs, is a member among those that share its tables, and its store answers.
async fn is_ready(shared: &Shared) -> bool {
    for source in shared.sources.iter().filter(|source| source.config.enabled) {
        if source.standing() != Standing::Running {
            return false;
        }
        for part in source.parts() {
            let is_member = part.health().is_some_and(|health| health.member);
            let checked = timeout(ANSWER, part.store.admin().check()).await;
            if !is_member || !matches!(checked, Ok(Ok(()))) {
                return false;
            }
        }
    }
    true
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, text(&desk.shared.readings())).into_response()
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    report: SourceReport,
    engines: Vec<ShownEngine>,
}

#[derive(Serialize)]
struct ShownEngine {
    table: String,
    #[serde(flatten)]
    health: Option<Health>,
    last_failure: Option<LastFailure>,
}

async fn sources(State(desk): State<Arc<Desk>>) -> Response {
    let shown = desk.shared.sources.iter().map(|source| Shown {
        report: SourceReport::of(source),
        engines: source
            .parts()
            .iter()
            .map(|part| ShownEngine {
                table: part.table.clone(),
                health: part.health(),
                last_failure: part.failures.last(),
            })
            .collect(),
    });
    Json(shown.collect::<Vec<_>>()).into_response()
}

#[derive(Serialize)]
struct ShownGroup {
    table: String,
    group: String,
    state: GroupState,
    event: Option<String>,
    reason: Option<String>,
    by: String,
    since: String,
}

impl ShownGroup {
    fn of(part: &Part, held: HeldGroup) -> Self {
        Self {
            table: part.table.clone(),
            group: held.group.to_string(),
            state: held.state,
            event: held.event.map(|event| event.to_string()),
            reason: held.reason,
            by: held.by,
            since: held.since.to_string(),
        }
    }
}

impl Desk {
    /// A source that runs, by its name.
    fn source(&self, name: &str) -> Result<&Source, Refusal> {
        let source = self.shared.sources.iter().find(|source| source.config.name == name);
        match source {
            None => Err(refusal(StatusCode::NOT_FOUND, "there is no such source")),
            Some(source) if source.standing() != Standing::Running => {
                Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "the source does not run"))
            }
            Some(source) => Ok(source),
        }
    }
}

fn store_failed(error: &pillarbox::port::StoreError) -> Response {
    tracing::warn!(%error, "an admin request failed");
    refusal(StatusCode::SERVICE_UNAVAILABLE, "the store did not answer").into_response()
}

async fn groups(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Response {
    let source = match desk.source(&name) {
        Ok(source) => source,
        Err(refused) => return refused.into_response(),
    };
    let mut shown = Vec::new();
    for part in source.parts() {
        match part.store.admin().groups().await {
            Ok(held) => shown.extend(held.into_iter().map(|held| ShownGroup::of(&part, held))),
            Err(error) => return store_failed(&error),
        }
    }
    Json(shown).into_response()
}

/// The body of an action.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// Why, for whoever looks.
    reason: Option<String>,
    /// Only in this table; by default in each of the source.
    table: Option<String>,
}

#[derive(Serialize)]
struct Changed {
    action: &'static str,
    group: String,
    /// The tables in which something changed.
    changed: Vec<String>,
}

async fn change(
    State(desk): State<Arc<Desk>>,
    Path((name, group, action)): Path<(String, String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(action) = action_named(&action) else {
        return refusal(StatusCode::NOT_FOUND, "an action is pause, resume, unblock or skip").into_response();
    };
    let source = match desk.source(&name) {
        Ok(source) => source,
        Err(refused) => return refused.into_response(),
    };
    let Ok(wish) =
        (if body.is_empty() { Ok(Wish::default()) } else { serde_json::from_slice::<Wish>(&body) })
    else {
        return refusal(StatusCode::BAD_REQUEST, "a body has `reason` and `table`, and no more")
            .into_response();
    };
    let parts = source.parts();
    let wanted = |part: &&Arc<Part>| wish.table.as_ref().is_none_or(|table| part.table == *table);
    let mut changed = Vec::new();
    for part in parts.iter().filter(wanted) {
        let change = GroupChange {
            group: GroupKey::new(group.as_str()),
            action,
            reason: wish.reason.clone(),
            by: actor(&headers),
            now: None,
        };
        match part.store.admin().change_group(change).await {
            Ok(true) => {
                part.look();
                changed.push(part.table.clone());
            }
            Ok(false) => {}
            Err(error) => return store_failed(&error),
        }
    }
    Json(Changed { action: action.as_str(), group, changed }).into_response()
}

fn action_named(name: &str) -> Option<GroupAction> {
    let all = [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip];
    all.into_iter().find(|action| action.as_str() == name)
}

/// Who asked: `admin`, and the name that the caller gives, if it is a plain one.
fn actor(headers: &HeaderMap) -> String {
    let plain =
        |name: &&str| !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_graphic());
    match headers.get(ACTOR).and_then(|name| name.to_str().ok()).filter(plain) {
        Some(name) => format!("admin/{name}"),
        None => "admin".to_owned(),
    }
}
