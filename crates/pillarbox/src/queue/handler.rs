//! Handlers: user code that processes messages of a topic, and the sink that calls it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Message;
use super::local_wakeup::LocalWakeup;
use crate::engine::RouteBreakers;
use crate::events::{Failure, trace};
use crate::model::OwnerId;
use crate::port::{Delivery, Handed, Sink, Verdict};

/// Processes the messages of one topic. Implement it for a type, or use a closure `|message: Message| async { … }`.
///
/// The error of a closure is [`Failure`], so that `Ok(())` needs no annotation; `?` converts any other error.
///
/// Delivery is at least once: make the handler idempotent by [`message_id`](Message::message_id), or complete
/// the message in the transaction of its effect with [`Queue::complete_on`](super::Queue::complete_on). When
/// a handler exceeds its deadline or its claim cannot be renewed, its future is dropped at the current await
/// point and the attempt has failed. [`Message::cancellation`] tells it of a shutdown, and tells what it has
/// started of all of these.
pub trait Handler: Send + Sync + 'static {
    /// Processes one message. A [`Failure`] decides whether and when it is retried;
    /// any other error is retried.
    fn handle(&self, message: Message) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl<F, Fut> Handler for F
where
    F: Fn(Message) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    async fn handle(&self, message: Message) -> Result<(), Failure> {
        self(message).await
    }
}

type Handled<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A handler as a trait object.
pub(super) trait AnyHandler: Send + Sync {
    fn call(&self, message: Message) -> Handled<'_>;
}

impl<H: Handler> AnyHandler for H {
    fn call(&self, message: Message) -> Handled<'_> {
        Box::pin(self.handle(message))
    }
}

/// Handlers by topic, and an optional handler for all other topics.
#[derive(Default)]
pub(super) struct Handlers {
    pub(super) by_topic: HashMap<String, Arc<dyn AnyHandler>>,
    pub(super) fallback: Option<Arc<dyn AnyHandler>>,
}

impl Handlers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_topic.is_empty() && self.fallback.is_none()
    }

    /// Topics with a handler; empty if all topics can be handled.
    pub(super) fn topics(&self) -> Arc<[String]> {
        if self.fallback.is_some() {
            return Arc::default();
        }
        self.by_topic.keys().cloned().collect()
    }

    fn of(&self, topic: &str) -> Option<&Arc<dyn AnyHandler>> {
        self.by_topic.get(topic).or(self.fallback.as_ref())
    }
}

/// Delivers each message to the handler of its topic.
pub(super) struct QueueSink {
    pub(super) handlers: Arc<Handlers>,
    pub(super) owner: OwnerId,
    /// Name of the store, for logs.
    pub(super) store: String,
    pub(super) breakers: Arc<RouteBreakers>,
    pub(super) wakeup: LocalWakeup,
    /// Cancelled when the worker shuts down.
    pub(super) stop: CancellationToken,
}

impl QueueSink {
    async fn one(&self, delivery: &Delivery) -> Verdict {
        let cancellation = self.stop.child_token();
        // Dropping this future, because the claim is lost or the deadline has passed, cancels the token.
        let _cancels = cancellation.clone().drop_guard();
        let Some(message) = Message::of_delivery(delivery, &self.owner, cancellation) else {
            return Verdict::Skipped;
        };
        let (store, topic, id) = (self.store.as_str(), message.topic(), message.message_id());
        let Some(handler) = self.handlers.of(topic) else {
            tracing::warn!(store, topic, message = ?id, "no handler for this topic: it is tried again");
            return Verdict::NoRoute { route: route_of(topic) };
        };
        let passage = match self.breakers.enter(|| route_of(topic)) {
            Ok(passage) => passage,
            Err(after) => return Verdict::RouteShut { route: route_of(topic), after },
        };
        tracing::info!(store, topic, message = ?id, attempt = delivery.attempt, "handling");
        let handled = match delivery.event.trace_context() {
            Some(context) => trace::scope(context, handler.call(message.clone())).await,
            None => handler.call(message.clone()).await,
        };
        let verdict = match handled {
            Ok(()) if message.is_settled() => {
                // The handler's transaction may have enqueued the continuation of a join. The store could not
                // notify anybody, because it does not see the commit.
                self.wakeup.notify();
                Verdict::Settled
            }
            Ok(()) => Verdict::Accepted,
            Err(failure) => {
                tracing::error!(store, topic, message = ?id, error = failure.message(), "handler failed");
                failure.into_verdict()
            }
        };
        passage.judge(verdict, || route_of(topic))
    }
}

/// Name of the route to a topic's handler, by which its circuit breaker is found.
pub(super) fn route_of(topic: &str) -> String {
    format!("topic {topic}")
}

impl Sink for QueueSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let mut verdicts = Vec::with_capacity(batch.len());
            for delivery in batch {
                verdicts.push(self.one(delivery).await);
            }
            verdicts
        })
    }
}
