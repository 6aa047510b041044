//! What holds a pending event: its expiry, a claim, its group, its due time, and what its surroundings add.

use std::time::Duration;

use pillarbox::model::{Lane, Record, Status};
use pillarbox::port::{GroupState, HeldGroup};

use super::ended::lacks_listener;
use super::words::{argument, at, error, lasting};
use super::{Hold, Reason, Situation, due_since, nodes, transactions};

/// An event that has been due for longer was passed by: readers look at least every 5 s.
const OVERDUE: Duration = Duration::from_secs(10);

/// The reasons, in the order in which an operator has to remove them. Never empty.
pub(super) fn pending(situation: &Situation, record: &Record) -> Vec<Hold> {
    let is_message = record.slot == Lane::QUEUE.slot();
    let mut holds: Vec<Hold> =
        [expired(situation, record), claimed(situation, record)].into_iter().flatten().collect();
    if !is_message {
        holds.extend(group_held(situation));
        holds.extend(behind(situation, record));
    }
    holds.extend(transactions::locking(situation));
    holds.extend(not_yet(situation, record));
    holds.extend(if is_message { None } else { nodes::trouble(situation, record) });
    holds.extend(claim_expired(situation, record));
    if holds.is_empty() {
        holds.push(nothing_else(situation, record, is_message));
    }
    // It makes readers slow, but holds nothing back by itself.
    holds.extend(transactions::earlier(situation, record));
    holds
}

/// Where an event is that nothing holds: on its way, or with somebody who has had it for a while.
fn nothing_else(situation: &Situation, record: &Record, is_message: bool) -> Hold {
    match (is_message, is_overdue(situation, record)) {
        (true, true) => unclaimed(situation, record),
        (true, false) => next_claim(record),
        (false, true) => {
            nodes::holding(situation, record).unwrap_or_else(|| nodes::next_read(situation, record))
        }
        (false, false) => nodes::next_read(situation, record),
    }
}

fn is_overdue(situation: &Situation, record: &Record) -> bool {
    let waited = situation.now.duration_since(due_since(record));
    Duration::try_from(waited).is_ok_and(|waited| waited >= OVERDUE)
}

fn expired(situation: &Situation, record: &Record) -> Option<Hold> {
    let end = record.expires_at.filter(|end| *end <= situation.now)?;
    let sentence =
        format!("It expired at {}, before it was delivered: whoever reads it next marks it dead.", at(end));
    let hold = Hold::new(Reason::Expired, sentence).fact("expired", at(end));
    Some(hold.advise("write it again with a later expiry if it is still wanted"))
}

fn claimed(situation: &Situation, record: &Record) -> Option<Hold> {
    let (owner, until) = (record.locked_by.as_ref()?, record.locked_until?);
    if until <= situation.now {
        return None;
    }
    let until = at(until);
    let sentence = format!("{owner} has claimed it until {until} and works on it; it may renew the claim.");
    let hold = Hold::new(Reason::Claimed, sentence).fact("claimed by", owner).fact("claimed until", &*until);
    Some(hold.advise(format!("wait: if {owner} has died, others can claim it after that time")))
}

/// The previous owner neither ended the event nor renewed its claim.
fn claim_expired(situation: &Situation, record: &Record) -> Option<Hold> {
    let (owner, until) = (record.locked_by.as_ref()?, record.locked_until?);
    if until > situation.now {
        return None;
    }
    let until = at(until);
    let sentence = format!(
        "The claim of {owner} ran out at {until} without an outcome, perhaps because it crashed: the next claim takes it, alone."
    );
    let hold =
        Hold::new(Reason::ClaimExpired, sentence).fact("claimed by", owner).fact("claimed until", until);
    Some(hold.advise("look at what happened to that process, and check that another one runs"))
}

fn group_held(situation: &Situation) -> Option<Hold> {
    let held = situation.held.as_ref()?;
    let (group, since, by) = (&held.group, at(held.since), &held.by);
    let argument = argument(group.as_str());
    let hold = match held.state {
        GroupState::Paused => {
            let sentence = format!("Its group {group} has been paused by {by} since {since}{}.", why(held));
            Hold::new(Reason::GroupPaused, sentence)
                .advise(format!("let the group go on: pillarbox groups resume {argument}"))
        }
        GroupState::Blocked => {
            let behind =
                held.event.as_ref().map_or_else(String::new, |id| format!(" behind the dead event {id}"));
            let sentence = format!("Its group {group} has been blocked{behind} since {since}{}.", why(held));
            Hold::new(Reason::GroupBlocked, sentence)
                .advise("remove the cause of the error")
                .advise(format!("then try the dead event again: pillarbox groups unblock {argument}"))
                .advise(format!("or leave it dead and go on: pillarbox groups skip {argument}"))
        }
    };
    Some(hold.fact("held by", by).fact("held since", since))
}

/// The reason that was given for holding a group.
fn why(held: &HeldGroup) -> String {
    held.reason.as_deref().map_or_else(String::new, |reason| format!(": {}", error(reason)))
}

fn behind(situation: &Situation, record: &Record) -> Option<Hold> {
    let ahead = situation.ahead.as_ref().filter(|ahead| ahead.status.is_pending())?;
    let group = record.group.as_ref()?;
    let sentence = format!("It waits behind the event {} of its group {group}, which comes first.", ahead.id);
    Some(Hold::new(Reason::BehindEvent, sentence).fact("first of the group", ahead.id.to_string()))
}

/// The next attempt, or the first one, is in the future.
fn not_yet(situation: &Situation, record: &Record) -> Option<Hold> {
    let (due, now) = (record.available_at, situation.now);
    if due <= now {
        return None;
    }
    let when = format!("{} (in {})", at(due), lasting(now, due));
    let told = record.last_error.as_deref();
    let hold = match (record.status, told) {
        (_, Some(told)) if lacks_listener(told) => {
            Hold::new(Reason::NoListener, format!("There is {}; it is tried again at {when}.", error(told)))
                .advise("register a listener or handler for it, or start the release that has one")
        }
        (Status::New, None) => Hold::new(Reason::NotDue, format!("It is not due until {when}.")),
        _ => {
            let attempt = match record.attempts {
                0 => "The last attempt".to_owned(),
                number => format!("Attempt {number}"),
            };
            let told = told.map_or_else(|| "no error was stored".to_owned(), error);
            Hold::new(Reason::Retry, format!("{attempt} failed: {told}. The next attempt is at {when}."))
                .advise("remove the cause of the error; it is tried again by itself")
        }
    };
    Some(hold.fact("next attempt", at(due)))
}

fn unclaimed(situation: &Situation, record: &Record) -> Hold {
    let due = due_since(record);
    let sentence = format!(
        "It has been due for {}, and no worker has claimed it: none runs for this topic, or all are busy.",
        lasting(due, situation.now)
    );
    Hold::new(Reason::Unclaimed, sentence)
        .fact("due since", at(due))
        .advise("check that a worker with a handler for this topic runs")
}

fn next_claim(record: &Record) -> Hold {
    let sentence = "Nothing holds it: it is delivered with the next claim of a worker for its topic.";
    Hold::new(Reason::NextRead, sentence).fact("due since", at(due_since(record)))
}
