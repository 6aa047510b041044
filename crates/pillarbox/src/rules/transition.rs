//! The table of legal transitions: done is final, dead is final but for replay.

use crate::model::Status;

/// What is done to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Accepted by its listener or sink.
    Done,
    /// Failed, to be tried again.
    Retry,
    /// Put off, or its attempt counted, without an outcome.
    Keep,
    /// Given up.
    Dead,
    /// Brought back by an operator.
    Replay,
    /// Taken back before delivery; the row goes.
    Cancel,
    /// Deleted after it died, by an operator.
    Discard,
}

impl Move {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Done, Self::Retry, Self::Keep, Self::Dead, Self::Replay, Self::Cancel, Self::Discard];
}

/// Where a move leads: `None` where it is not legal and changes nothing, `Some(None)` where the row goes.
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
