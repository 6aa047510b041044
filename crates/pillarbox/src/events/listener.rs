//! Listeners: code in the process that takes an event.

use std::future::Future;
use std::pin::Pin;

use super::Failure;
use crate::model::Event;

/// Takes events of one kind. Closures `|event| async { … }` are listeners; so are types.
///
/// An event may come more than once: drop duplicates by its id. A listener past its deadline is dropped where it
/// waits, and has failed.
pub trait Listener: Send + Sync + 'static {
    /// Takes one event.
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

/// A listener of any type, as registries keep it.
pub(crate) trait AnyListener: Send + Sync {
    fn call(&self, event: Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>>;
}

impl<L: Listener> AnyListener for L {
    fn call(&self, event: Event) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + '_>> {
        Box::pin(self.on_event(event))
    }
}
