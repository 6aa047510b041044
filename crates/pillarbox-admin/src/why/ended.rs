//! Events that are no longer pending: delivered, dead, or deleted by a person.

use pillarbox::model::{Record, Status};
use pillarbox::port::AuditEntry;

use super::words::{argument, at, error};
use super::{Hold, Reason, Situation};

/// How the engine begins the error of an event that expired, and of one that no listener takes.
const EXPIRED: &str = "expired before";
const NO_LISTENER: &str = "no listener for";

/// Whether an error says that no listener or handler takes the event.
pub(super) fn lacks_listener(told: &str) -> bool {
    told.starts_with(NO_LISTENER)
}

/// Explains a row that is done or dead.
pub(super) fn ended(situation: &Situation, record: &Record) -> Hold {
    match record.status {
        Status::Dead => dead(situation, record),
        _ => delivered(record),
    }
}

fn delivered(record: &Record) -> Hold {
    let when = record.done_at.map_or_else(String::new, |done| format!(" at {}", at(done)));
    let by = record.processed_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    Hold::new(Reason::Delivered, format!("It was delivered{when}{by}."))
}

fn dead(situation: &Situation, record: &Record) -> Hold {
    let since = record.done_at.map_or_else(String::new, |done| format!(" since {}", at(done)));
    let told = record.last_error.as_deref().unwrap_or("no error was stored");
    let id = argument(record.id.as_str());
    let hold = if told.starts_with(EXPIRED) {
        let end = record.expires_at.map_or_else(String::new, |end| format!(" at {}", at(end)));
        Hold::new(
            Reason::Expired,
            format!("It expired{end}, before it was delivered, and has been dead{since}."),
        )
        .advise("write it again with a later expiry if it is still wanted: a replay would expire too")
    } else if lacks_listener(told) {
        Hold::new(Reason::NoListener, format!("It has been dead{since}: there is {}.", error(told)))
            .advise("register a listener for it")
            .advise(format!("then replay it: pillarbox dead replay {id}"))
    } else {
        Hold::new(Reason::Dead, format!("It has been dead{since}: {}.", error(told)))
            .advise("remove the cause of the error")
            .advise(format!("then replay it: pillarbox dead replay {id}"))
    };
    let hold = hold.fact_if("dead since", record.done_at.map(at));
    match situation.held.as_ref().filter(|held| held.event.as_ref() == Some(&record.id)) {
        None => hold,
        Some(held) => {
            let group = argument(held.group.as_str());
            let skip = format!("or leave it dead and go on with its group: pillarbox groups skip {group}");
            hold.fact("blocks group", held.group.to_string()).advise(skip)
        }
    }
}

/// Explains an event that a person deleted.
pub(super) fn deleted(entry: &AuditEntry) -> Hold {
    let (by, when) = (&entry.by, at(entry.at));
    let hold = if entry.action == "cancel" {
        Hold::new(Reason::Cancelled, format!("It was cancelled by {by} at {when}, before it was delivered."))
    } else {
        Hold::new(Reason::Discarded, format!("It was dead, and was discarded by {by} at {when}."))
    };
    hold.fact("deleted by", by).fact("deleted at", when)
}
