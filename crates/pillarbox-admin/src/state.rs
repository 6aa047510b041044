//! What the routes share.

use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;

use crate::api::health::Readiness;
use crate::call::Call;
use crate::guard::Guard;
use crate::refusal::{Refusal, bad, missing, refusal};
use crate::sources::{AdminSource, AdminSources, AdminTable, SourceStatus};

/// Requests that use a database at the same time; further ones wait.
const REQUESTS: usize = 8;

/// State of the routes.
pub(crate) struct AdminState {
    pub(crate) sources: Arc<dyn AdminSources>,
    pub(crate) guard: Guard,
    /// The last answer of `/readyz`.
    pub(crate) ready: Mutex<Option<(Instant, Readiness)>>,
    /// Room for requests that use a database.
    pub(crate) room: Semaphore,
}

/// A table and the name of its source.
pub(crate) struct Place {
    pub(crate) source: String,
    pub(crate) table: AdminTable,
}

impl AdminState {
    pub(crate) fn new(sources: Arc<dyn AdminSources>, guard: Guard) -> Self {
        Self { sources, guard, ready: Mutex::new(None), room: Semaphore::new(REQUESTS) }
    }

    /// The running source of this name.
    pub(crate) fn source(&self, name: &str) -> Result<AdminSource, Refusal> {
        let source = self.sources.sources().into_iter().find(|source| source.name == name);
        let source = source.ok_or_else(|| missing("there is no such source"))?;
        if source.status == SourceStatus::Running { Ok(source) } else { Err(not_running(&[source])) }
    }

    /// The tables that `source` and `table` of the query select; all if neither is given.
    pub(crate) fn places(&self, call: &Call) -> Result<Vec<Place>, Refusal> {
        let sources = match call.text("source") {
            Some(name) => vec![self.source(&name)?],
            None => self.sources.sources(),
        };
        let refused = not_running(&sources);
        let table = call.text("table");
        let places = sources.into_iter().flat_map(|source| {
            let AdminSource { name, tables, .. } = source;
            tables.into_iter().map(move |table| Place { source: name.clone(), table })
        });
        let places: Vec<Place> =
            places.filter(|place| table.as_ref().is_none_or(|table| place.table.name == *table)).collect();
        match (places.is_empty(), table) {
            (false, _) => Ok(places),
            (true, Some(_)) => Err(missing("there is no such table, or its source does not run")),
            (true, None) => Err(refused),
        }
    }

    /// The one table that the query selects.
    pub(crate) fn place(&self, call: &Call) -> Result<Place, Refusal> {
        let mut places = self.places(call)?;
        match (places.pop(), places.is_empty()) {
            (Some(place), true) => Ok(place),
            _ => Err(bad("there are several tables: add `source` and `table`, which /api/v1/sources lists")),
        }
    }
}

/// The refusal of a request that needs a source, none of which runs.
fn not_running(sources: &[AdminSource]) -> Refusal {
    if sources.iter().all(|source| source.status == SourceStatus::Off) {
        return refusal(
            StatusCode::CONFLICT,
            "the source is disabled: set enabled = true in its configuration",
        );
    }
    match sources.iter().find_map(|source| source.trouble.as_deref()) {
        Some(trouble) => {
            refusal(StatusCode::SERVICE_UNAVAILABLE, format!("the source does not run: {trouble}"))
        }
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "the source does not run"),
    }
}
