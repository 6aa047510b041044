//! The sink of the events API: runs interceptors and passes each event to its listener or sink.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::in_flight::Acquired;
use super::{Failure, InFlightTracker, Interceptor, ListenerRegistry, trace};
use crate::engine::RouteBreakers;
use crate::model::Event;
use crate::port::{Delivery, Handed, Sink, Verdict};

/// Delivers each event to its listener, one at a time, within the event's trace.
pub(crate) struct ListenerSink {
    pub(crate) registry: Arc<dyn ListenerRegistry>,
    pub(crate) interceptors: Vec<Arc<dyn Interceptor>>,
    pub(crate) tracker: Arc<dyn InFlightTracker>,
    pub(crate) breakers: RouteBreakers,
}

impl ListenerSink {
    async fn one(&self, delivery: &Delivery) -> Verdict {
        let event = &delivery.event;
        let Some(_acquired) = Acquired::new(&*self.tracker, event.id()) else {
            return Verdict::InFlight;
        };
        let route = || self.registry.route(event.aggregate_type(), event.event_type());
        let passage = match self.breakers.enter(route) {
            Ok(passage) => passage,
            Err(after) => return Verdict::RouteShut { route: route(), after },
        };
        // Interceptors see the end of every delivery: `Unfinished` reports it if this
        // future panics or is dropped.
        let unfinished = Unfinished { sink: self, event };
        let verdict = match self.before(event) {
            Ok(()) => self.listen(delivery).await,
            Err(failure) => failure.into_verdict(),
        };
        std::mem::forget(unfinished);
        self.after(event, Failure::of(&verdict).as_ref());
        passage.judge(verdict, route)
    }

    fn before(&self, event: &Event) -> Result<(), Failure> {
        self.interceptors.iter().try_for_each(|interceptor| interceptor.before(event))
    }

    async fn listen(&self, delivery: &Delivery) -> Verdict {
        let (aggregate_type, event_type) = (delivery.event.aggregate_type(), delivery.event.event_type());
        let Some(found) = self.registry.find(aggregate_type, event_type) else {
            return Verdict::NoRoute {
                route: format!("aggregate type {aggregate_type}, event type {event_type}"),
            };
        };
        match delivery.event.trace_context() {
            Some(context) => trace::scope(context, found.deliver(delivery)).await,
            None => found.deliver(delivery).await,
        }
    }

    fn after(&self, event: &Event, failure: Option<&Failure>) {
        for interceptor in self.interceptors.iter().rev() {
            let id = event.id();
            match catch_unwind(AssertUnwindSafe(|| interceptor.after(event, failure))) {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => {
                    tracing::warn!(event = ?id, error = failure.message(), "after-interceptor failed")
                }
                Err(_) => tracing::warn!(event = ?id, "after-interceptor panicked"),
            }
        }
    }
}

/// Runs the after-interceptors when dropped, for a delivery that panicked or exceeded its deadline.
struct Unfinished<'a> {
    sink: &'a ListenerSink,
    event: &'a Event,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let failure = Failure::retry("it panicked or did not finish in time");
        self.sink.after(self.event, Some(&failure));
    }
}

impl Sink for ListenerSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move {
            let mut verdicts = Vec::with_capacity(batch.len());
            for delivery in batch {
                let verdict = self.one(delivery).await;
                let taken = matches!(verdict, Verdict::Accepted | Verdict::Settled);
                verdicts.push(verdict);
                if !taken {
                    // Events behind a failure stay undelivered, so that the group keeps its order.
                    verdicts.resize(batch.len(), Verdict::Skipped);
                    break;
                }
            }
            verdicts
        })
    }
}
