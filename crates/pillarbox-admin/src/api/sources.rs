//! Lists the sources.

use serde::Serialize;

use crate::call::Call;
use crate::described::described;
use crate::refusal::Refusal;
use crate::sources::{AdminSource, EngineView, LastFailure, SourceCounts, SourceStatus};
use crate::state::AdminState;

described! {
    /// A source for display.
    #[derive(Serialize)]
    pub(crate) struct SourceView {
        /// Its name.
        name: String,
        /// What it is doing.
        standing: SourceStatus,
        /// Its tables; empty until it runs.
        tables: Vec<String>,
        /// The error that keeps it from running.
        trouble: Option<String>,
        /// Counters since the start; null where this program does not deliver.
        counts: Option<SourceCounts>,
        /// The last failure of its sink, also if it has ended.
        last_failure: Option<LastFailure>,
        /// The engines of this program.
        engines: Vec<EngineView>,
    }
}

pub(crate) async fn list(state: &AdminState, _call: &Call) -> Result<Vec<SourceView>, Refusal> {
    Ok(state.sources.sources().into_iter().map(SourceView::from).collect())
}

impl From<AdminSource> for SourceView {
    fn from(source: AdminSource) -> Self {
        Self {
            name: source.name,
            standing: source.status,
            tables: source.tables.iter().map(|table| table.name.clone()).collect(),
            trouble: source.trouble,
            counts: source.counts,
            last_failure: source.last_failure,
            engines: source.tables.into_iter().filter_map(|table| table.engine).collect(),
        }
    }
}
