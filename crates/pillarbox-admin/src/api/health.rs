//! Health, readiness, metrics and the document of the API.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::call::Call;
use crate::openapi::document;
use crate::refusal::{Refusal, missing};
use crate::routes::Reply;
use crate::sources::{AdminSource, SourceStatus};
use crate::state::AdminState;

/// Timeout of the check of one store for `/readyz`.
const ANSWER: Duration = Duration::from_secs(2);
/// How long the result of `/readyz` is cached, so that frequent probes do not load the database.
const READY_FOR: Duration = Duration::from_millis(500);
const TEXT: &str = "text/plain; charset=utf-8";

/// The result of `/readyz`.
#[derive(Clone)]
pub(crate) enum Readiness {
    Ready,
    /// All sources run, but some endpoints fail.
    Degraded(String),
    NotReady,
}

pub(crate) async fn alive(_state: &AdminState, _call: &Call) -> Result<Reply, Refusal> {
    Ok(Reply::Text(StatusCode::OK, TEXT, "ok\n".to_owned()))
}

pub(crate) async fn ready(state: &AdminState, _call: &Call) -> Result<Reply, Refusal> {
    // The lock is held during the check: one request runs it, concurrent ones wait for its result.
    let mut known = state.ready.lock().await;
    let readiness = match &*known {
        Some((at, readiness)) if at.elapsed() < READY_FOR => readiness.clone(),
        _ => {
            let readiness = Readiness::of(&state.sources.sources()).await;
            *known = Some((Instant::now(), readiness.clone()));
            readiness
        }
    };
    let (status, text) = match readiness {
        Readiness::Ready => (StatusCode::OK, "ready\n".to_owned()),
        // Answers 200: a restart would not repair the endpoint.
        Readiness::Degraded(why) => (StatusCode::OK, format!("degraded: {why}\n")),
        Readiness::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n".to_owned()),
    };
    Ok(Reply::Text(status, TEXT, text))
}

impl Readiness {
    async fn of(sources: &[AdminSource]) -> Self {
        for source in sources.iter().filter(|source| source.status != SourceStatus::Off) {
            if !is_ready(source).await {
                return Self::NotReady;
            }
        }
        let failing = sources.iter().filter_map(|source| {
            let failure = source.last_failure.as_ref().filter(|failure| failure.recovered_at.is_none())?;
            Some(format!("source {}: {} since {}", source.name, failure.class, failure.since))
        });
        let failing: Vec<String> = failing.collect();
        if failing.is_empty() { Self::Ready } else { Self::Degraded(failing.join("; ")) }
    }
}

/// Whether the source runs, its tables are ready and their stores answer.
async fn is_ready(source: &AdminSource) -> bool {
    if source.status != SourceStatus::Running {
        return false;
    }
    for table in &source.tables {
        let checked = timeout(ANSWER, table.store.admin().check()).await;
        if !table.is_ready || !matches!(checked, Ok(Ok(()))) {
            return false;
        }
    }
    true
}

pub(crate) async fn metrics(state: &AdminState, _call: &Call) -> Result<Reply, Refusal> {
    let text = state.sources.metrics();
    let text = text.ok_or_else(|| missing("this program measures nothing; a relay has metrics"))?;
    Ok(Reply::Text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

pub(crate) async fn openapi(_state: &AdminState, _call: &Call) -> Result<Value, Refusal> {
    Ok(document())
}
