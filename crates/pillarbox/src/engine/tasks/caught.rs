//! Panic isolation: a panic of user code must not end the task that calls it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::rules::{Exponential, RetryPolicy};

/// Returns the future's output, or the message of its panic.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

/// Returns the call's result, or the message of its panic.
pub(crate) fn called<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// A user's retry policy, with the default policy as its fallback after a panic.
///
/// The policy is called during changes of the engine's state, which a panic would leave half done.
pub(crate) struct CaughtPolicy(pub(crate) Arc<dyn RetryPolicy>);

impl RetryPolicy for CaughtPolicy {
    fn delay(&self, attempts: u32, random: f64) -> Duration {
        called(|| self.0.delay(attempts, random)).unwrap_or_else(|panic| {
            tracing::error!(attempts, panic, "the retry policy panicked: the default delay is used");
            Exponential::default().delay(attempts, random)
        })
    }
}
