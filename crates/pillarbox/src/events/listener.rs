//! Listeners: user code in this process that receives events.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use serde::de::DeserializeOwned;

use super::Failure;
use crate::model::{Event, EventPayload};
use crate::port::Delivery;

/// Receives the events of one type. Implement it for a type, or use a closure `|event: Event| async { … }`.
///
/// The error of a closure is [`Failure`], so that `Ok(())` needs no annotation; `?` converts any other error.
///
/// Delivery is at least once: discard duplicates by the event's id. When a listener exceeds its deadline, its
/// future is dropped at the current await point and the delivery has failed.
pub trait Listener: Send + Sync + 'static {
    /// Processes one event.
    fn on_event(&self, event: Event) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<F, Fut> Listener for F
where
    F: Fn(Event) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    async fn on_event(&self, event: Event) -> Result<(), Failure> {
        self(event).await
    }
}

pub(crate) type Listened<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A listener as a trait object, for registries.
pub(crate) trait AnyListener: Send + Sync {
    fn call<'a>(&'a self, delivery: &Delivery) -> Listened<'a>;
}

impl<L: Listener> AnyListener for L {
    fn call<'a>(&'a self, delivery: &Delivery) -> Listened<'a> {
        Box::pin(self.on_event(delivery.event.clone()))
    }
}

/// A closure that takes the payload of its events.
///
/// Its error is `Failure` itself, not anything that converts to it: the compiler then needs no annotation of `Ok(())`.
pub(super) struct Typed<P, F> {
    pub(super) listener: F,
    pub(super) payload: PhantomData<fn(P)>,
}

impl<P, F, Fut> AnyListener for Typed<P, F>
where
    P: EventPayload + DeserializeOwned + Send,
    F: Fn(P, Delivery) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    fn call<'a>(&'a self, delivery: &Delivery) -> Listened<'a> {
        match delivery.event.json_as() {
            Ok(payload) => {
                let delivery = delivery.clone();
                Box::pin(async move { (self.listener)(payload, delivery).await })
            }
            // The bytes of an event never change, so another attempt would end in the same way.
            Err(unreadable) => Box::pin(async move { Err(Failure::permanent(unreadable)) }),
        }
    }
}
