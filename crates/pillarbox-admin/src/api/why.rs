//! Explains why an event is not delivered.

use pillarbox::model::EventId;
use pillarbox::port::{ErrorKind, StoreError};

use crate::call::Call;
use crate::refusal::{Refusal, bad, missing, store_failed};
use crate::sources::{AdminSource, AdminTable, SourceStatus};
use crate::state::AdminState;
use crate::why::{Explanation, Situation, explain, unknown, without_source};

pub(crate) async fn why(state: &AdminState, call: &Call) -> Result<Explanation, Refusal> {
    let id = call.part("id");
    if id.contains('\0') {
        return Err(bad("an id has no NUL character"));
    }
    let (id, sources) = (EventId::from_row(id), chosen(state, call)?);
    let mut told = "no table was searched; /api/v1/sources lists them".to_owned();
    for (source, table) in tables(&sources, call.text("table").as_deref()) {
        match Situation::read(&table.store, &id).await {
            Ok(situation) => match explain(&situation) {
                Some(explanation) => return Ok(explanation),
                None => told = unknown(&situation),
            },
            Err(error) if is_away(&error) => {
                tracing::warn!(%error, "an admin request failed");
                return Ok(without_source(&id, &source.name, Some("it does not answer")));
            }
            Err(error) => return Err(store_failed(&table.store, error).await),
        }
    }
    let idle = sources.iter().find(|source| source.status != SourceStatus::Running);
    match idle {
        Some(AdminSource { name, status: SourceStatus::Off, .. }) => Ok(without_source(&id, name, None)),
        Some(AdminSource { name, trouble, .. }) => {
            let trouble = trouble.as_deref().unwrap_or("the source does not run");
            Ok(without_source(&id, name, Some(trouble)))
        }
        None => Err(missing(format!("there is no such event: {told}"))),
    }
}

fn is_away(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

/// The sources that the query selects, also those that do not run.
fn chosen(state: &AdminState, call: &Call) -> Result<Vec<AdminSource>, Refusal> {
    let mut sources = state.sources.sources();
    if let Some(name) = call.text("source") {
        sources.retain(|source| source.name == name);
        if sources.is_empty() {
            return Err(missing("there is no such source"));
        }
    }
    Ok(sources)
}

fn tables<'a>(
    sources: &'a [AdminSource],
    wanted: Option<&'a str>,
) -> impl Iterator<Item = (&'a AdminSource, &'a AdminTable)> {
    let all = sources.iter().flat_map(|source| source.tables.iter().map(move |table| (source, table)));
    all.filter(move |(_, table)| wanted.is_none_or(|name| table.name == name))
}
