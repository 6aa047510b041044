//! Delivers a batch to a broker in order: nothing is sent past a failure.

use std::future::Future;

use pillarbox::port::{Delivery, Verdict};

use crate::fault::Fault;

/// The part of a delivery that depends on the broker.
pub(crate) trait Courier: Sync {
    /// An encoded event with its destination.
    type Message<'a>: Send;

    /// Encodes the message. The error is the verdict on an event that can't be sent.
    fn prepare<'a>(&'a self, delivery: &'a Delivery) -> Result<Self::Message<'a>, Verdict>;

    /// Whether both messages go to the same destination.
    fn together(&self, one: &Self::Message<'_>, other: &Self::Message<'_>) -> bool;

    /// Sends messages to one destination in order, without waiting for each. The verdicts may end after the
    /// first failure.
    fn send<'a>(&'a self, run: Vec<Self::Message<'a>>) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// Delivers a batch in order.
///
/// Messages to one destination are pipelined, because the broker accepts or refuses them in order. A message
/// to another destination waits for those before it: if only their destination was missing, it would arrive
/// first. After a failure all further events are `Skipped`, even if the broker may have accepted some. They
/// are sent again after the failed event, which can duplicate them but never reorders them.
pub(crate) async fn deliver<'a, C: Courier>(courier: &'a C, batch: &'a [Delivery]) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(batch.len());
    let mut run: Vec<C::Message<'a>> = Vec::with_capacity(batch.len());
    let mut refused = None;
    for delivery in batch {
        let message = match courier.prepare(delivery) {
            Ok(message) => message,
            Err(verdict) => {
                refused = Some(verdict);
                break;
            }
        };
        if run.first().is_some_and(|first| !courier.together(first, &message))
            && !send(courier, &mut run, &mut verdicts).await
        {
            break;
        }
        run.push(message);
    }
    // The refused event gets its verdict only if all events before it were accepted; otherwise it is skipped.
    if verdicts.iter().all(accepted) && send(courier, &mut run, &mut verdicts).await {
        verdicts.extend(refused);
    }
    verdicts.resize(batch.len(), Verdict::Skipped);
    verdicts
}

/// Sends the messages of a run. Returns whether the broker accepted all of them.
async fn send<'a, C: Courier>(
    courier: &'a C,
    run: &mut Vec<C::Message<'a>>,
    verdicts: &mut Vec<Verdict>,
) -> bool {
    let run = std::mem::take(run);
    let expected = run.len();
    if expected == 0 {
        return true;
    }
    let given = courier.send(run).await;
    let taken = given.iter().take(expected).take_while(|verdict| accepted(verdict)).count();
    verdicts.extend(given.into_iter().take(taken + 1).take(expected));
    taken == expected
}

fn accepted(verdict: &Verdict) -> bool {
    *verdict == Verdict::Accepted
}

/// The verdict if the broker is at fault.
pub(crate) fn unavailable(fault: impl Into<Fault>) -> Verdict {
    fault.into().verdict()
}

/// The verdict on an event that no retry can deliver.
pub(crate) fn rejected(error: impl Into<String>) -> Verdict {
    Verdict::Rejected { error: error.into() }
}

/// A text of the broker for an error: on one line and at most 300 characters.
pub(crate) fn said(text: &str) -> String {
    const SAID_MAX: usize = 300;
    let line = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(SAID_MAX).map(line).collect()
}

#[cfg(test)]
mod tests;
