//! The worker task: takes a job, delivers it under a deadline, and reports the verdicts.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::time::{Instant, sleep, sleep_until};

use super::caught::caught;
use crate::engine::shared::Shared;
use crate::engine::state::item::Job;
use crate::engine::steps::dispatch::{Delivered, Next};
use crate::port::Delivery;

/// Delivers jobs until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut done: Option<(Job, Delivered)> = None;
    loop {
        let next = shared.with(|core| {
            let now = Instant::now();
            if let Some((job, delivered)) = done.take() {
                core.finish(job, delivered, now);
            }
            let next = core.next_job(now);
            if matches!(next, Next::Wait(_)) {
                core.worker_waits();
            }
            next
        });
        match next {
            Next::Job(job) => {
                let delivered = deliver(&shared, &job).await;
                done = Some((job, delivered));
            }
            Next::Wait(until) => {
                wait(&shared, until).await;
                shared.with(|core| core.worker_wakes());
            }
            Next::Stop => return,
        }
    }
}

async fn wait(shared: &Shared, until: Option<Instant>) {
    match until {
        Some(until) => tokio::select! {
            biased;
            () = shared.work.notified() => {}
            () = sleep_until(until) => {}
        },
        None => shared.work.notified().await,
    }
}

async fn deliver(shared: &Shared, job: &Job) -> Delivered {
    let deadline = shared.settings.deadline;
    let batch: Vec<Delivery> = job.items.iter().map(|item| item.delivery()).collect();
    let mut delivery = pin!(caught(async { shared.sink.deliver(&batch).await }));
    // A delivery that never waits completes at the first poll, and the cost of a timer is saved.
    let first = poll_fn(|cx| Poll::Ready(delivery.as_mut().poll(cx))).await;
    let outcome = match first {
        Poll::Ready(outcome) => Ok(outcome),
        Poll::Pending => tokio::select! {
            biased;
            outcome = delivery => Ok(outcome),
            () = sleep(deadline) => Err(format!("not finished within its deadline of {deadline:?}")),
            () = claim_over(shared) => Err("its claim ran out before it was finished".to_owned()),
        },
    };
    let error = match outcome {
        Ok(Ok(verdicts)) => return Delivered::Verdicts(verdicts),
        Ok(Err(message)) => format!("panicked: {message}"),
        Err(error) => error,
    };
    // User code can log its own errors, but neither of these.
    if let Some(first) = batch.first() {
        let (event_type, event) = (first.event.event_type(), first.event.id());
        let (store, events, attempt) = (shared.store_name(), batch.len(), first.attempt);
        tracing::error!(store, event_type, ?event, attempt, events, error, "delivery was broken off");
    }
    Delivered::Broken(error)
}

/// Waits until the lease of claimed rows is over because it could not be renewed.
async fn claim_over(shared: &Shared) {
    let mut lease = shared.lease.subscribe();
    loop {
        let until = *lease.borrow_and_update();
        tokio::select! {
            changed = lease.changed() => if changed.is_err() {
                return;
            },
            () = over(until) => return,
        }
    }
}

async fn over(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}
