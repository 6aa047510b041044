//! Deletes done and dead rows after their retention time, in one process at a time.

use std::time::Duration;

use pillarbox::model::Layout;
use pillarbox::port::{ErrorKind, Purge, PurgeStatus, StoreError, Table};
use tokio::time::sleep;

use crate::config::{Retention, SourceConfig};
use crate::source::DrainedTable;

/// Delay from the start of the engine to the first run. Later runs follow every [`INTERVAL`].
const FIRST: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(3_600);
/// Rows deleted in one transaction.
const BATCH: usize = 500;
/// Maximum batches of one status in one run, so that a run ends even if rows arrive as fast as it deletes
/// them.
const BATCHES_MAX: usize = 100_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The statuses to purge and their retention, by configuration and layout.
pub(crate) fn kinds(config: &SourceConfig, layout: Layout) -> Vec<(PurgeStatus, Duration)> {
    // A table of items belongs to another program: its rows are purged only if the configuration says so.
    let usual = |days: u32| (layout == Layout::Native).then_some(DAY * days);
    let done = config.retention_done.map_or_else(|| usual(7), Retention::length);
    let dead = config.retention_dead.map_or_else(|| usual(30), Retention::length);
    let kinds = [(PurgeStatus::Done, done), (PurgeStatus::Dead, dead)];
    kinds.into_iter().filter_map(|(status, older_than)| Some((status, older_than?))).collect()
}

/// Purges a table every hour. Never returns; the caller cancels it.
pub(crate) async fn purge(source: &str, drained: &DrainedTable) {
    let mut pause = FIRST;
    loop {
        sleep(pause).await;
        pause = INTERVAL;
        // Only one node holds the first slot, so only one node purges.
        if drained.purges.is_empty() || !drained.health().is_some_and(|health| health.first) {
            continue;
        }
        match run(&*drained.store, &drained.purges).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(source, table = %drained.table, rows, "purged"),
            Err(error) if error.kind() == ErrorKind::Permission => {
                tracing::warn!(source, table = %drained.table, %error, "purge failed: nothing is purged without this right");
            }
            Err(error) => {
                tracing::warn!(source, table = %drained.table, %error, "purge failed, trying again later")
            }
        }
    }
}

async fn run(store: &dyn Table, kinds: &[(PurgeStatus, Duration)]) -> Result<u64, StoreError> {
    let mut total = 0;
    for &(status, older_than) in kinds {
        for _ in 0..BATCHES_MAX {
            let rows = store.admin().purge(Purge { status, older_than, limit: BATCH, now: None }).await?;
            total += rows;
            if rows < BATCH as u64 {
                break;
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::memory::MemoryStore;
    use pillarbox::model::{NewRow, Placement};
    use pillarbox::port::{Change, Fence, OnDone, Outcome, Select, Settle, Write};
    use pillarbox::{Event, model::Token};

    use super::*;
    use crate::config::{Input, RelayConfig};

    fn config(more: &[(&str, &str)]) -> SourceConfig {
        let flags = [("database-url", "sqlite:x.db"), ("sink", "stdout:")].iter().chain(more);
        let flags = flags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut config =
            RelayConfig::load(&Input { flags, ..Input::default() }).unwrap_or_else(|e| panic!("{e}"));
        config.sources.remove(0)
    }

    /// RLY-071
    #[test]
    fn tables_of_others_are_purged_only_if_asked() {
        let (week, month) = (DAY * 7, DAY * 30);
        let (done, dead) = (PurgeStatus::Done, PurgeStatus::Dead);
        assert_eq!(kinds(&config(&[]), Layout::Native), [(done, week), (dead, month)]);
        assert_eq!(kinds(&config(&[]), Layout::Flowcatalyst), []);
        let off = config(&[("retention-done", "none"), ("retention-dead", "none")]);
        assert_eq!(kinds(&off, Layout::Native), []);
        let asked = config(&[("retention-done", "1d")]);
        assert_eq!(kinds(&asked, Layout::Flowcatalyst), [(done, DAY)]);
        assert_eq!(kinds(&asked, Layout::Native), [(done, DAY), (dead, month)]);
    }

    /// RLY-071
    #[tokio::test]
    async fn a_run_takes_everything_old_in_batches() {
        let store = MemoryStore::new();
        let event = |n: usize| Event::text("t", "{}").id(format!("e{n:04}")).build().unwrap();
        let rows = (0..1_200).map(|n| NewRow { event: event(n), placement: Placement::Slot }).collect();
        let written = store.write(Write { rows, now: None }).await.unwrap();
        let outcome = |(n, written): (usize, &pillarbox::model::Written)| Outcome {
            seq: written.seq,
            id: event(n).id().clone(),
            token: Token(0),
            change: Change::Done,
        };
        let outcomes: Arc<[Outcome]> = written.iter().enumerate().take(1_100).map(outcome).collect();
        let settle = Settle { fence: Fence::Open, outcomes, on_done: OnDone::Keep, repeats: None, now: None };
        store.settle(settle).await.unwrap();
        let week = [(PurgeStatus::Done, DAY * 7)];
        assert_eq!(run(&store, &week).await.unwrap(), 0);
        store.clock().advance(DAY * 8);
        assert_eq!(run(&store, &week).await.unwrap(), 1_100);
        assert_eq!(store.admin().count(Select::default()).await.unwrap(), 100);
    }
}
