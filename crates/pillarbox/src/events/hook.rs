//! Writer hooks: callbacks around a write and the end of its transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Failure;
use crate::model::{Event, Written};

/// Callbacks around writes.
///
/// `before_write` can change or suppress a write. Failures and panics of the other callbacks are logged and
/// never reach the caller.
pub trait WriterHook: Send + Sync + 'static {
    /// Runs before the insert and returns the events to write. An empty list suppresses the
    /// write; an error fails it.
    fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, Failure> {
        Ok(events)
    }

    /// Runs after the insert, while the transaction is still open.
    fn after_write(&self, _events: &[Event]) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs after the commit and before `after_commit`, with the rows of the events, one for each.
    ///
    /// Does not run for events that were flushed, or inserted by a statement of the caller: their rows are not
    /// known.
    fn after_commit_rows(&self, _events: &[Event], _rows: &[Written]) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs after the transaction has committed.
    fn after_commit(&self, _events: &[Event]) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs after the transaction was rolled back or dropped.
    fn after_rollback(&self, _events: &[Event]) -> Result<(), Failure> {
        Ok(())
    }
}

/// The step after which a hook runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    Write,
    Commit,
    Rollback,
}

/// The hooks of a writer, in the order of registration.
#[derive(Clone, Default)]
pub(crate) struct Hooks(pub(crate) Vec<Arc<dyn WriterHook>>);

impl Hooks {
    pub(crate) fn before_write(&self, events: Vec<Event>) -> Result<Vec<Event>, Failure> {
        self.0.iter().try_fold(events, |events, hook| {
            catch_unwind(AssertUnwindSafe(|| hook.before_write(events)))
                .unwrap_or_else(|_| Err(Failure::permanent("before-write hook panicked")))
        })
    }

    pub(crate) fn run(&self, moment: Moment, events: &[Event]) {
        self.each(moment, |hook| match moment {
            Moment::Write => hook.after_write(events),
            Moment::Commit => hook.after_commit(events),
            Moment::Rollback => hook.after_rollback(events),
        });
    }

    pub(crate) fn run_with_rows(&self, events: &[Event], rows: &[Written]) {
        if !rows.is_empty() {
            self.each(Moment::Commit, |hook| hook.after_commit_rows(events, rows));
        }
    }

    fn each(&self, moment: Moment, call: impl Fn(&dyn WriterHook) -> Result<(), Failure>) {
        for hook in &self.0 {
            match catch_unwind(AssertUnwindSafe(|| call(&**hook))) {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => tracing::warn!(?moment, error = failure.message(), "writer hook failed"),
                Err(_) => tracing::warn!(?moment, "writer hook panicked"),
            }
        }
    }
}
