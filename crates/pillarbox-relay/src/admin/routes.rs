//! Routes of the admin server.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pillarbox::port::{ErrorKind, StoreError};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use super::groups::{change, groups};
use super::guard::{Guard, guard};
use super::refusal::{Refusal, refusal};
use crate::failures::LastFailure;
use crate::metrics::text;
use crate::relay::{Shared, SourceReport};
use crate::source::{Health, Source, SourceStatus};

/// Maximum size of a request body.
const BODY_BYTES: usize = 16 * 1_024;
/// Timeout of the check of one store for `/readyz`.
const ANSWER: Duration = Duration::from_secs(2);
/// How long the result of `/readyz` is cached, so that frequent probes do not load the database.
const READY_FOR: Duration = Duration::from_millis(500);

/// State of the routes.
pub(super) struct AdminState {
    shared: Arc<Shared>,
    ready: tokio::sync::Mutex<Option<(Instant, Readiness)>>,
}

/// The routes, with the guard in front of all of them.
pub(super) fn router(shared: Arc<Shared>, judge: Guard) -> Router {
    let state = Arc::new(AdminState { shared, ready: tokio::sync::Mutex::new(None) });
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/sources", get(sources))
        .route("/api/v1/sources/{name}/groups", get(groups))
        .route("/api/v1/sources/{name}/groups/{group}/{action}", post(change))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "there is nothing here") })
        .method_not_allowed_fallback(|| async {
            refusal(StatusCode::METHOD_NOT_ALLOWED, "this address is served for another method")
        })
        .with_state(state)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn_with_state(judge, guard))
}

async fn ready(State(state): State<Arc<AdminState>>) -> Response {
    // The lock is held during the check: one request runs it, concurrent ones wait for its result.
    let mut known = state.ready.lock().await;
    let readiness = match &*known {
        Some((at, readiness)) if at.elapsed() < READY_FOR => readiness.clone(),
        _ => {
            let readiness = Readiness::of(&state.shared).await;
            *known = Some((Instant::now(), readiness.clone()));
            readiness
        }
    };
    match readiness {
        Readiness::Ready => "ready\n".into_response(),
        // Answers 200: a restart of the relay would not repair the endpoint.
        Readiness::Degraded(why) => format!("degraded: {why}\n").into_response(),
        Readiness::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

/// The result of `/readyz`.
#[derive(Clone)]
enum Readiness {
    Ready,
    /// All sources run, but some endpoints fail.
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

/// Whether every enabled source runs, is registered as a node of its tables, and its stores answer.
async fn is_ready(shared: &Shared) -> bool {
    for source in shared.sources.iter().filter(|source| source.config.enabled) {
        if source.status() != SourceStatus::Running {
            return false;
        }
        for drained in source.drained_tables() {
            let is_member = drained.health().is_some_and(|health| health.member);
            let checked = timeout(ANSWER, drained.store.admin().check()).await;
            if !is_member || !matches!(checked, Ok(Ok(()))) {
                return false;
            }
        }
    }
    true
}

async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, text(&state.shared.readings())).into_response()
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

async fn sources(State(state): State<Arc<AdminState>>) -> Response {
    let shown = state.shared.sources.iter().map(|source| Shown {
        report: SourceReport::of(source),
        engines: source
            .drained_tables()
            .iter()
            .map(|drained| ShownEngine {
                table: drained.table.clone(),
                health: drained.health(),
                last_failure: drained.failures.last(),
            })
            .collect(),
    });
    Json(shown.collect::<Vec<_>>()).into_response()
}

impl AdminState {
    /// The running source of this name.
    pub(super) fn source(&self, name: &str) -> Result<&Source, Refusal> {
        let source = self.shared.sources.iter().find(|source| source.config.name == name);
        match source {
            None => Err(refusal(StatusCode::NOT_FOUND, "there is no such source")),
            Some(source) if source.status() != SourceStatus::Running => {
                Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "the source does not run"))
            }
            Some(source) => Ok(source),
        }
    }
}

pub(super) fn store_failed(error: &StoreError) -> Response {
    tracing::warn!(%error, "an admin request failed");
    let why = if error.kind() == ErrorKind::Permission {
        "the relay's database user lacks the right to do this: grant it what operators have"
    } else {
        "the store failed; see the log of the relay"
    };
    refusal(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}
