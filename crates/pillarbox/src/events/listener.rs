//! Listeners: user code in this process that receives events.

use std::future::Future;
use std::pin::Pin;

use super::Failure;
use crate::model::Event;

/// Receives the events of one type. Implement it for a type, or use a closure `|event| async { … }`.
///
/// Delivery is at least once: discard duplicates by the event's id. When a listener exceeds its deadline, its
/// future is dropped at the current await point and the delivery has failed.
pub trait Listener: Send + Sync + 'static {
    /// Processes one event.
    fn on_event(&self, event: Event) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<F, Fut, E> Listener for F
where
    F: Fn(Event) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), E>> + Send,
    E: Into<Failure>,
{
    async fn on_event(&self, event: Event) -> Result<(), Failure> {
        self(event).await.map_err(Into::into)
    }
}

/// A listener as a trait object, for registries.
pub(crate) trait AnyListener: Send + Sync {
    fn call(&self, event: Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>>;
}

impl<L: Listener> AnyListener for L {
    fn call(&self, event: Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
        Box::pin(self.on_event(event))
    }
}
