//! Interceptors: what runs around every delivery, for audit, logs and measures.

use super::Failure;
use crate::model::Event;

/// Runs before and after a listener.
pub trait Interceptor: Send + Sync + 'static {
    /// Before delivery, in the order of registration; a failure sends the event to retry or dead.
    fn before(&self, _event: &Event) -> Result<(), Failure> {
        Ok(())
    }

    /// After delivery, in reverse order; the failure, or none. What it fails with is logged.
    fn after(&self, _event: &Event, _failure: Option<&Failure>) -> Result<(), Failure> {
        Ok(())
    }
}

struct Before<F>(F);

impl<F: Fn(&Event) -> Result<(), Failure> + Send + Sync + 'static> Interceptor for Before<F> {
    fn before(&self, event: &Event) -> Result<(), Failure> {
        (self.0)(event)
    }
}

struct After<F>(F);

impl<F: Fn(&Event, Option<&Failure>) + Send + Sync + 'static> Interceptor for After<F> {
    fn after(&self, event: &Event, failure: Option<&Failure>) -> Result<(), Failure> {
        (self.0)(event, failure);
        Ok(())
    }
}

/// An interceptor from one closure that runs before.
pub fn before(run: impl Fn(&Event) -> Result<(), Failure> + Send + Sync + 'static) -> impl Interceptor {
    Before(run)
}

/// An interceptor from one closure that runs after.
pub fn after(run: impl Fn(&Event, Option<&Failure>) + Send + Sync + 'static) -> impl Interceptor {
    After(run)
}
