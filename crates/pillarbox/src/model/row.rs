//! Rows: what is written, what is read back, what an operator sees.

use jiff::Timestamp;

use super::{Event, EventId, GroupKey, Lane, Seq, Slot, Status, Token};

/// Who is to deliver a row that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The holder of its group's slot; without a group, of the slot its id falls into.
    Slot,
    /// The node that holds this lane.
    Lane(Lane),
    /// Whoever claims it.
    Queue,
}

/// A row to be written. One that is due in the future waits in lane −1, unless it is in the queue.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// The event.
    pub event: Event,
    /// Who delivers it.
    pub placement: Placement,
}

/// What became of a row that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its id; where an event with the same message id was there already, that one's.
    pub id: EventId,
    /// Its number.
    pub seq: Seq,
    /// Whether a row was added; false where the message id was there already.
    pub fresh: bool,
    /// Whether it waits for its time.
    pub delayed: bool,
}

/// Why a row can't be read as an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    reason: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Undecodable,
    TooLarge,
}

impl Malformed {
    /// A reason without payload or header values.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Kind::Undecodable }
    }

    /// A row of more bytes than may be loaded.
    #[must_use]
    pub fn too_large(bytes: usize, most: usize) -> Self {
        let reason = format!("the row has {bytes} bytes, more than the {most} that max-row-bytes allows");
        Self { reason, kind: Kind::TooLarge }
    }

    /// A row whose contents nobody asked for.
    #[must_use]
    pub fn left_out() -> Self {
        Self::new("its contents were left out")
    }

    /// The error of a row that is set aside as dead because of this.
    #[must_use]
    pub fn error(&self) -> String {
        match self.kind {
            Kind::Undecodable => format!("undecodable: {}", self.reason),
            Kind::TooLarge => format!("too large: {}", self.reason),
        }
    }
}

/// The event of a row, or why there is none.
pub type Decoded = Result<Event, Malformed>;

/// A pending row as it was read for delivery.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its number.
    pub seq: Seq,
    /// Its id.
    pub id: EventId,
    /// Its slot, or the lane it is in.
    pub slot: Slot,
    /// New or retry.
    pub status: Status,
    /// Failed attempts so far (claims: the one under way included).
    pub attempts: u32,
    /// When it was written, by the database's clock.
    pub created_at: Timestamp,
    /// Not to be delivered before.
    pub available_at: Timestamp,
    /// Not to be delivered after.
    pub expires_at: Option<Timestamp>,
    /// The token of the claim; zero for rows that were read without one.
    pub token: Token,
    /// The last error; only claims tell it.
    pub last_error: Option<String>,
    /// Whether the claim before this one ran out without an outcome, perhaps because the event ended the process; only
    /// claims tell it. The two count as one attempt: nobody knows whether the first was begun.
    pub lapsed: bool,
    /// The group, also of a row that can't be decoded, so that order holds.
    pub group: Option<GroupKey>,
    /// What it counts against the byte limits of a read; nothing where its contents were not loaded.
    pub bytes: usize,
    /// The event.
    pub event: Decoded,
}

impl Row {
    /// The row without its contents, which are more bytes than a row may have.
    #[must_use]
    pub fn set_aside(self, bytes: usize, most: usize) -> Self {
        Self { bytes: 0, last_error: None, event: Err(Malformed::too_large(bytes, most)), ..self }
    }
}

/// Everything in a row, for people.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its number.
    pub seq: Seq,
    /// Its id.
    pub id: EventId,
    /// Its slot, or the lane it is in.
    pub slot: Slot,
    /// Where it stands.
    pub status: Status,
    /// Failed attempts.
    pub attempts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// Not to be delivered before.
    pub available_at: Timestamp,
    /// Not to be delivered after.
    pub expires_at: Option<Timestamp>,
    /// When it was done or died.
    pub done_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// The owner of the claim that ended it.
    pub processed_by: Option<String>,
    /// Who holds a claim on it.
    pub locked_by: Option<String>,
    /// Until when.
    pub locked_until: Option<Timestamp>,
    /// The token of its last claim; zero if it was never claimed.
    pub token: Token,
    /// Its group.
    pub group: Option<GroupKey>,
    /// The event.
    pub event: Decoded,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which one, from 1.
    pub number: u32,
    /// When it failed.
    pub at: Timestamp,
    /// By whom.
    pub by: String,
    /// The error that the attempt failed with.
    pub error: String,
}
