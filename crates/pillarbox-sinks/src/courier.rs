//! Delivers a batch to a broker in order: what goes to one place is sent together, and nothing goes past a failure.

use std::future::Future;

use pillarbox::port::{Delivery, Verdict};

use crate::fault::Fault;

/// A broker's side of it.
pub(crate) trait Courier: Sync {
    /// An event, ready to be sent.
    type Message<'a>: Send;

    /// Makes the message; what is not to be sent has its verdict already.
    fn prepare<'a>(&'a self, delivery: &'a Delivery) -> Result<Self::Message<'a>, Verdict>;

    /// Whether both go to the same place.
    fn together(&self, one: &Self::Message<'_>, other: &Self::Message<'_>) -> bool;

    /// Sends messages to one place, in order, without waiting for each. The verdicts may end after the first failure.
    fn send<'a>(&'a self, run: Vec<Self::Message<'a>>) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// Delivers a batch.
///
/// Messages to one place are sent without waiting for each other's answers, since the broker takes or refuses them in order. What goes
/// elsewhere waits: the one place may be missing and the other not, and the later event would be there first. After a
/// failure everything is `Skipped`, also what the broker may have taken: it is sent again after its forerunners, a duplicate but no inversion.
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
    if verdicts.iter().all(accepted) && send(courier, &mut run, &mut verdicts).await {
        verdicts.extend(refused);
    }
    verdicts.resize(batch.len(), Verdict::Skipped);
    verdicts
}

/// Sends a run; tells whether all of it was taken.
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

/// The broker can't be used.
pub(crate) fn unavailable(fault: impl Into<Fault>) -> Verdict {
    fault.into().verdict()
}

/// The event will never be taken.
pub(crate) fn rejected(error: impl Into<String>) -> Verdict {
    Verdict::Rejected { error: error.into() }
}

/// Text of a broker, cut to what fits a row, on one line.
pub(crate) fn said(text: &str) -> String {
    const SAID_MAX: usize = 300;
    let line = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(SAID_MAX).map(line).collect()
}

#[cfg(test)]
mod tests;
