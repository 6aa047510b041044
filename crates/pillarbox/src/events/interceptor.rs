//! Interceptors: callbacks around every delivery, for audit, logs and metrics.

use super::Failure;
use crate::model::Event;

/// Callbacks before and after each delivery to a listener.
pub trait Interceptor: Send + Sync + 'static {
    /// Runs before the delivery, in the order of registration.
    ///
    /// On a failure the listener does not run, and the event is retried or dead as
    /// if the listener had failed.
    fn before(&self, _event: &Event) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs after the delivery, in reverse order, with the delivery's failure if any. Its
    /// own failure is only logged.
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

/// Creates an interceptor from a closure that runs before each delivery.
pub fn before(run: impl Fn(&Event) -> Result<(), Failure> + Send + Sync + 'static) -> impl Interceptor {
    Before(run)
}

/// Creates an interceptor from a closure that runs after each delivery.
pub fn after(run: impl Fn(&Event, Option<&Failure>) + Send + Sync + 'static) -> impl Interceptor {
    After(run)
}
