//! Open transactions of other sessions, where the store can tell.

use std::time::Duration;

use pillarbox::model::Record;
use pillarbox::port::TransactionInfo;

use super::words::{at, lasting};
use super::{Hold, Reason, Situation};

/// A younger transaction is a passing one, such as a settle.
const LONG: Duration = Duration::from_secs(2);

/// The transaction that has locked the row: neither a claim nor a promotion nor a settle gets past it.
pub(super) fn locking(situation: &Situation) -> Option<Hold> {
    let open = situation.open.as_deref()?.iter().find(|open| open.locks_row && is_long(situation, open))?;
    let sentence = format!(
        "The transaction of {} has locked its row, so that nobody can claim, move or settle it.",
        named(situation, open)
    );
    Some(hold(open, sentence))
}

/// A transaction that began before the event was written and is still open.
pub(super) fn earlier(situation: &Situation, record: &Record) -> Option<Hold> {
    let began = |open: &&TransactionInfo| {
        !open.locks_row && is_long(situation, open) && open.began_at.is_some_and(|at| at <= record.created_at)
    };
    let open = situation.open.as_deref()?.iter().find(began)?;
    let sentence = format!(
        "An earlier transaction is still open, that of {}: until it ends, readers read everything that was \
         written since again and again.",
        named(situation, open)
    );
    Some(hold(open, sentence))
}

/// The long transactions that may have written an unknown event.
pub(super) fn writing(situation: &Situation) -> Option<String> {
    let open = situation.open.as_deref()?.iter().filter(|open| is_long(situation, open));
    let named: Vec<String> = open.map(|open| named(situation, open)).collect();
    if named.is_empty() { None } else { Some(format!("open are those of {}", named.join(", "))) }
}

fn is_long(situation: &Situation, open: &TransactionInfo) -> bool {
    // Without rights to see its age it might be a long one.
    open.began_at.is_none_or(|began| {
        Duration::try_from(situation.now.duration_since(began)).is_ok_and(|age| age >= LONG)
    })
}

fn named(situation: &Situation, open: &TransactionInfo) -> String {
    let program = open.application.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let age = match open.began_at {
        Some(began) => format!(", open for {}", lasting(began, situation.now)),
        None => String::new(),
    };
    format!("session {}{program}{age}", open.session)
}

fn hold(open: &TransactionInfo, sentence: String) -> Hold {
    Hold::new(Reason::TransactionOpen, sentence)
        .fact("session", &open.session)
        .fact_if("program", open.application.clone())
        .fact_if("open since", open.began_at.map(at))
        .advise("let that program commit or roll back")
        .advise(format!("or end its session in the database: {}", ending(&open.session)))
}

/// The statement that ends a session of PostgreSQL. A prepared transaction belongs to none.
fn ending(session: &str) -> String {
    match session.parse::<u32>() {
        Ok(pid) => format!("SELECT pg_terminate_backend({pid})"),
        Err(_) => "pg_prepared_xacts lists prepared transactions, ROLLBACK PREPARED ends one".to_owned(),
    }
}
