//! The legal transitions of a row's status: done is final, and only operators change dead rows.
//!
//! The memory store calls [`transition`]; the other stores express the same rules in their statements.

use crate::model::Status;

/// An operation on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The listener or sink accepted the event.
    Done,
    /// The attempt failed and will be retried.
    Retry,
    /// The row is delayed, or its attempt counted, without an outcome.
    Keep,
    /// The event is given up.
    Dead,
    /// An operator replays the dead event.
    Replay,
    /// The event is cancelled before delivery; the row is deleted.
    Cancel,
    /// An operator deletes the dead event.
    Discard,
}

impl Move {
    /// All moves.
    pub const ALL: [Self; 7] =
        [Self::Done, Self::Retry, Self::Keep, Self::Dead, Self::Replay, Self::Cancel, Self::Discard];
}

/// The status after a move: `None` if the move is illegal and changes nothing, `Some(None)` if the row is
/// deleted.
#[must_use]
pub const fn transition(from: Status, to: Move) -> Option<Option<Status>> {
    match (from, to) {
        (Status::New | Status::Retry, Move::Done) => Some(Some(Status::Done)),
        (Status::New | Status::Retry, Move::Retry) => Some(Some(Status::Retry)),
        (Status::New | Status::Retry, Move::Keep) => Some(Some(from)),
        (Status::New | Status::Retry, Move::Dead) => Some(Some(Status::Dead)),
        (Status::New | Status::Retry, Move::Cancel) | (Status::Dead, Move::Discard) => Some(None),
        (Status::Dead, Move::Replay) => Some(Some(Status::New)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-043, EVT-044, EVT-045
    #[test]
    fn done_is_final_and_dead_is_final_but_for_an_operator() {
        for to in Move::ALL {
            assert_eq!(transition(Status::Done, to), None);
            let legal = transition(Status::Dead, to).is_some();
            assert_eq!(legal, matches!(to, Move::Replay | Move::Discard), "{to:?}");
        }
    }
}
