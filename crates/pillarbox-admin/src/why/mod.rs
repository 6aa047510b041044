//! Explains why an event is not delivered: one pure function from facts to an explanation.
//!
//! [`Situation::read`] reads the facts through the operators' port, and [`explain`] turns them into an
//! [`Explanation`]. The command line and the admin API give the same answer.

mod ended;
mod explanation;
mod holds;
mod nodes;
mod sink;
mod situation;
#[cfg(test)]
mod tests;
mod transactions;
mod words;

use jiff::Timestamp;
use pillarbox::model::{EventId, Record};

pub use explanation::{ChainLink, Evidence, Explanation, FurtherReason, Reason};
pub use situation::Situation;

use words::{at, error};

/// One reason with its evidence and what to do about it.
#[derive(Debug, Clone)]
struct Hold {
    reason: Reason,
    sentence: String,
    evidence: Vec<Evidence>,
    advice: Vec<String>,
}

impl Hold {
    fn new(reason: Reason, sentence: impl Into<String>) -> Self {
        Self { reason, sentence: sentence.into(), evidence: Vec::new(), advice: Vec::new() }
    }

    fn fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.evidence.push(Evidence { name, value: value.into() });
        self
    }

    fn fact_if(self, name: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.fact(name, value),
            None => self,
        }
    }

    fn advise(mut self, step: impl Into<String>) -> Self {
        self.advice.push(step.into());
        self
    }

    fn link(&self, event: &EventId) -> ChainLink {
        ChainLink { event: event.to_string(), reason: self.reason, sentence: self.sentence.clone() }
    }
}

/// Explains a situation. `None` if there is no such event and nothing is known of it.
#[must_use]
pub fn explain(situation: &Situation) -> Option<Explanation> {
    let Some(record) = &situation.record else {
        let hold = ended::deleted(situation.deleted.as_ref()?);
        return Some(explanation(&situation.id, Vec::new(), vec![hold], None));
    };
    let holds = holds_of(situation, record);
    let waits = matches!(holds[0].reason, Reason::BehindEvent | Reason::GroupBlocked);
    let root = situation.ahead.as_ref().filter(|_| waits).map(|ahead| {
        // The head of a group waits for no other event, so the chain ends there.
        let alone = Situation { held: None, ahead: None, open: None, ..situation.clone() };
        (ahead.id.clone(), holds_of(&alone, ahead).swap_remove(0))
    });
    Some(explanation(&record.id, facts_of(record), holds, root))
}

/// Why an id is not known, for a caller that asks about it.
#[must_use]
pub fn unknown(situation: &Situation) -> String {
    let told = "it was purged, or deleted once it was delivered, or its transaction has not committed";
    match transactions::writing(situation) {
        Some(open) => format!("{told}: {open}"),
        None => told.to_owned(),
    }
}

/// Explains an event whose source does not run: it is disabled, or its database is away for this reason.
#[must_use]
pub fn without_source(id: &EventId, source: &str, trouble: Option<&str>) -> Explanation {
    let hold = match trouble {
        None => Hold::new(
            Reason::SourceDisabled,
            format!("The source {source} is disabled, so nothing is read from its database."),
        )
        .advise("set enabled = true for this source in the relay's configuration and restart the relay"),
        Some(trouble) => Hold::new(
            Reason::SourceAway,
            format!("The database of the source {source} is away: {}.", error(trouble)),
        )
        .advise("make the database reachable; delivery goes on by itself then"),
    };
    explanation(id, Vec::new(), vec![hold.fact("source", source)], None)
}

/// All reasons that hold for an event, the one that decides first. Never empty.
fn holds_of(situation: &Situation, record: &Record) -> Vec<Hold> {
    if record.status.is_pending() {
        holds::pending(situation, record)
    } else {
        vec![ended::ended(situation, record)]
    }
}

/// What is told of every event that has a row.
fn facts_of(record: &Record) -> Vec<Evidence> {
    let event = record.event.as_ref().ok();
    let facts = [
        ("status", Some(record.status.to_string())),
        ("type", event.map(|event| event.event_type().to_owned())),
        ("group", record.group.as_ref().map(ToString::to_string)),
        ("written", Some(at(record.created_at))),
        ("attempts", Some(record.attempts.to_string())),
        ("last error", record.last_error.as_deref().map(error)),
        ("malformed", record.event.as_ref().err().map(ToString::to_string)),
    ];
    facts.into_iter().filter_map(|(name, value)| Some(Evidence { name, value: value? })).collect()
}

fn explanation(
    id: &EventId,
    mut evidence: Vec<Evidence>,
    mut holds: Vec<Hold>,
    root: Option<(EventId, Hold)>,
) -> Explanation {
    let first = holds.remove(0);
    // What holds the root as well is told there.
    let is_root = |hold: &Hold| root.as_ref().is_some_and(|(_, root)| root.sentence == hold.sentence);
    holds.retain(|hold| !is_root(hold));
    let further = holds.into_iter().map(|Hold { reason, sentence, .. }| FurtherReason { reason, sentence });
    let mut chain = vec![first.link(id)];
    let mut advice = first.advice;
    evidence.extend(first.evidence);
    if let Some((event, root)) = root {
        chain.push(root.link(&event));
        // What frees the event that others wait for frees them too.
        if first.reason == Reason::BehindEvent {
            advice.extend(root.advice);
        }
    }
    Explanation {
        event: id.to_string(),
        reason: first.reason,
        sentence: first.sentence,
        evidence,
        advice,
        further: further.collect(),
        chain,
    }
}

/// Since when an event could have been delivered.
fn due_since(record: &Record) -> Timestamp {
    record.available_at.max(record.created_at)
}
