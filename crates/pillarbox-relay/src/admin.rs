//! What the admin API shows of a relay.

use std::sync::Arc;

use pillarbox_admin::{AdminSource, AdminSources, AdminTable, EngineView};

use crate::metrics::text;
use crate::relay::Shared;
use crate::source::{DrainedTable, Health, Source};

/// The sources of a relay.
pub(crate) struct RelaySources(pub(crate) Arc<Shared>);

impl AdminSources for RelaySources {
    fn sources(&self) -> Vec<AdminSource> {
        self.0.sources.iter().map(|source| shown(source)).collect()
    }

    fn metrics(&self) -> Option<String> {
        Some(text(&self.0.readings()))
    }
}

fn shown(source: &Source) -> AdminSource {
    AdminSource {
        name: source.config.name.clone(),
        status: source.status(),
        tables: source.drained_tables().into_iter().map(table).collect(),
        trouble: source.trouble().map(|trouble| trouble.what),
        counts: Some(source.counts()),
        last_failure: source.last_failure(),
    }
}

fn table(drained: Arc<DrainedTable>) -> AdminTable {
    let health = drained.health();
    AdminTable {
        name: drained.table.clone(),
        store: drained.store.clone(),
        is_ready: health.is_some_and(|health| health.member),
        engine: health.map(|health| engine(&drained, &health)),
        refresh: Some(Arc::new(move || drained.refresh_groups())),
    }
}

fn engine(drained: &DrainedTable, health: &Health) -> EngineView {
    EngineView {
        table: drained.table.clone(),
        member: health.member,
        slots: health.slots,
        breaker_open: health.breaker_open,
        next_attempt_in_ms: health.next_attempt_in_ms,
        in_memory: health.in_memory,
        out: health.out,
        restarts: health.restarts,
        last_failure: drained.failures.last(),
    }
}
