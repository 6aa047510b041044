//! Holds back deliveries to an endpoint that has refused every event so far.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::model::EventId;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use pillarbox::redact;

/// After this many distinct refused events and none accepted, the configuration is at fault, not the events.
const REFUSED_TO_HOLD: usize = 20;

/// How the endpoint has answered since the start of the process.
#[derive(Debug)]
enum Brake {
    /// No event was accepted yet. Contains the events that were refused.
    Undecided(BTreeSet<EventId>),
    /// Every event was refused: deliveries are held back.
    Holding,
    /// An event was accepted. From now on a refusal is the event's own fault. This state is final.
    Released,
}

/// The change of state that a batch caused.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    None,
    Held,
    Released,
}

impl Default for Brake {
    fn default() -> Self {
        Self::Undecided(BTreeSet::new())
    }
}

impl Brake {
    fn is_holding(&self) -> bool {
        matches!(self, Self::Holding)
    }

    /// Updates the state from the verdicts of a batch. While the brake holds, it turns a refusal into a
    /// failure of the endpoint, so no attempt is counted and the engine's circuit breaker pauses and probes.
    fn judge(&mut self, batch: &[Delivery], verdicts: &mut [Verdict]) -> Turn {
        if let Self::Released = self {
            return Turn::None;
        }
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Accepted | Verdict::Settled)) {
            let turn = if self.is_holding() { Turn::Released } else { Turn::None };
            *self = Self::Released;
            return turn;
        }
        let mut turn = Turn::None;
        if let Self::Undecided(refused) = self {
            // `Refused` is left out: the refusal of a whole batch says nothing about its single events.
            let own =
                |verdict: &Verdict| matches!(verdict, Verdict::Failed { .. } | Verdict::Rejected { .. });
            let ids = batch.iter().zip(&*verdicts).filter(|(_, verdict)| own(verdict));
            refused.extend(ids.map(|(delivery, _)| delivery.event.id().clone()).take(REFUSED_TO_HOLD));
            if refused.len() >= REFUSED_TO_HOLD {
                *self = Self::Holding;
                turn = Turn::Held;
            }
        }
        if self.is_holding() {
            verdicts.iter_mut().for_each(hold_back);
        }
        turn
    }
}

fn hold_back(verdict: &mut Verdict) {
    if let Verdict::Failed { error, .. } | Verdict::Refused { error } | Verdict::Rejected { error } = verdict
    {
        let error = format!("{error} (as everything so far: held back, no attempt counted)");
        *verdict = Verdict::Unavailable { cause: Cause::RefusesAll, error, after: None };
    }
}

/// A sink whose deliveries stop while its endpoint refuses everything.
pub(crate) struct Braked {
    sink: Arc<dyn Sink>,
    source: String,
    brake: Mutex<Brake>,
}

impl Braked {
    pub(crate) fn new(sink: Arc<dyn Sink>, source: &str) -> Self {
        Self { sink, source: source.to_owned(), brake: Mutex::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Brake) -> T) -> T {
        act(&mut self.brake.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn send(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let holding = self.with(|brake| brake.is_holding());
        // As a probe, one event is as good as a full batch.
        let sent = if holding { &batch[..batch.len().min(1)] } else { batch };
        let mut verdicts = self.sink.deliver(sent).await;
        match self.with(|brake| brake.judge(sent, &mut verdicts)) {
            Turn::None => {}
            Turn::Held => tracing::warn!(
                source = %self.source,
                refused = REFUSED_TO_HOLD,
                last_error = redact::first_line(last_error(&verdicts)),
                "every event so far was refused: single events are sent with growing pauses until one is accepted, \
                 and no attempt is counted; check the URL, the path, the format and what the endpoint expects"
            ),
            Turn::Released => {
                tracing::info!(source = %self.source, "an event was accepted: deliveries continue")
            }
        }
        verdicts.resize(batch.len(), Verdict::Skipped);
        verdicts
    }
}

fn last_error(verdicts: &[Verdict]) -> &str {
    let error = verdicts.iter().rev().find_map(|verdict| match verdict {
        Verdict::Unavailable { error, .. } => Some(error.as_str()),
        _ => None,
    });
    error.unwrap_or_default()
}

impl Sink for Braked {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.send(batch))
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::Event;

    use super::*;

    fn delivery(id: usize) -> Delivery {
        let event = Event::text("t", "{}").id(format!("e{id}")).build().unwrap_or_else(|e| panic!("{e}"));
        Delivery::first(event)
    }

    fn failed() -> Verdict {
        Verdict::Failed { error: "no".to_owned(), after: None }
    }

    /// What becomes of one verdict on one event.
    fn judged(brake: &mut Brake, id: usize, verdict: Verdict) -> (Turn, Verdict) {
        let mut verdicts = [verdict];
        let turn = brake.judge(&[delivery(id)], &mut verdicts);
        let [verdict] = verdicts;
        (turn, verdict)
    }

    /// RLY-044
    #[test]
    fn twenty_events_refused_and_none_accepted_hold_it_until_one_is() {
        let mut brake = Brake::default();
        for id in (1..REFUSED_TO_HOLD).flat_map(|id| [id, id]) {
            assert_eq!(judged(&mut brake, id, failed()), (Turn::None, failed()));
        }
        let refused = Verdict::Refused { error: "some of them".to_owned() };
        assert_eq!(judged(&mut brake, 99, refused.clone()), (Turn::None, refused));
        let (turn, verdict) = judged(&mut brake, 20, failed());
        assert!(turn == Turn::Held && matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
        let rejected = Verdict::Rejected { error: "never".to_owned() };
        let (turn, verdict) = judged(&mut brake, 21, rejected.clone());
        assert!(turn == Turn::None && matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
        assert_eq!(judged(&mut brake, 1, Verdict::Accepted), (Turn::Released, Verdict::Accepted));
        for id in 0..100 {
            assert_eq!(judged(&mut brake, id, rejected.clone()), (Turn::None, rejected.clone()));
        }
    }

    /// RLY-044
    #[test]
    fn an_endpoint_that_accepted_one_is_never_braked() {
        let mut brake = Brake::default();
        judged(&mut brake, 0, failed());
        assert_eq!(judged(&mut brake, 1, Verdict::Accepted), (Turn::None, Verdict::Accepted));
        for id in 0..100 {
            assert_eq!(judged(&mut brake, id, failed()), (Turn::None, failed()));
        }
    }
}
