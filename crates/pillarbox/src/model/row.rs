//! Rows: as written, as read for delivery, and as shown to operators.

use jiff::Timestamp;

use super::{Event, EventId, GroupKey, Lane, Seq, Slot, Status, Token};

/// Where a new row goes, which decides who delivers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The slot of its group, or of its id if it has no group. The holder of the slot delivers it.
    Slot,
    /// This lane. The holder of the lane delivers it.
    Lane(Lane),
    /// The queue. The worker that claims it delivers it.
    Queue,
}

/// A row to write. A row that is due in the future waits in lane −1, unless it belongs to the queue.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// The event.
    pub event: Event,
    /// Where the row goes.
    pub placement: Placement,
}

/// The result of writing one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The event's id. If a row with the same message id exists, the id of that row.
    pub id: EventId,
    /// The sequence number.
    pub seq: Seq,
    /// Whether a row was added; false if the message id existed already.
    pub fresh: bool,
    /// Whether the row waits in lane −1.
    pub delayed: bool,
}

/// Why a row cannot be decoded to an event.
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
    /// Creates an error. The reason must not contain payload or header values.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Kind::Undecodable }
    }

    /// The error of a row that is larger than may be loaded.
    #[must_use]
    pub fn too_large(bytes: usize, most: usize) -> Self {
        let reason = format!("the row has {bytes} bytes, more than the {most} that max-row-bytes allows");
        Self { reason, kind: Kind::TooLarge }
    }

    /// The error of a row whose contents were not requested.
    #[must_use]
    pub fn left_out() -> Self {
        Self::new("its contents were left out")
    }

    /// The error text to store when the row is marked dead for this reason.
    #[must_use]
    pub fn error(&self) -> String {
        match self.kind {
            Kind::Undecodable => format!("undecodable: {}", self.reason),
            Kind::TooLarge => format!("too large: {}", self.reason),
        }
    }
}

/// The event of a row, or why it cannot be decoded.
pub type Decoded = Result<Event, Malformed>;

/// A pending row, as read for delivery.
#[derive(Debug, Clone)]
pub struct Row {
    /// The sequence number.
    pub seq: Seq,
    /// The event's id.
    pub id: EventId,
    /// The slot or lane that contains the row.
    pub slot: Slot,
    /// The status: new or retry.
    pub status: Status,
    /// The failed attempts so far; for a claimed row, including the current one.
    pub attempts: u32,
    /// When the row was written, by the database's clock.
    pub created_at: Timestamp,
    /// The earliest time of delivery.
    pub available_at: Timestamp,
    /// The latest time of delivery.
    pub expires_at: Option<Timestamp>,
    /// The token of the claim; zero for rows read without a claim.
    pub token: Token,
    /// The last error, at most as long as a stored error.
    pub last_error: Option<String>,
    /// Whether the previous claim expired without an outcome, perhaps because the event crashed the process.
    /// Only set by claims. Both claims count as one attempt, because it is unknown whether the first attempt
    /// began.
    pub lapsed: bool,
    /// The group. Set even if the row is malformed, so that order is kept.
    pub group: Option<GroupKey>,
    /// The size that counts against the byte limits of a read; zero if the contents were not loaded.
    pub bytes: usize,
    /// The event.
    pub event: Decoded,
}

impl Row {
    /// Drops the contents of a row that is larger than `most` and makes it malformed.
    #[must_use]
    pub fn set_aside(self, bytes: usize, most: usize) -> Self {
        Self { bytes: 0, last_error: None, event: Err(Malformed::too_large(bytes, most)), ..self }
    }
}

/// All fields of a row, for operators.
#[derive(Debug, Clone)]
pub struct Record {
    /// The sequence number.
    pub seq: Seq,
    /// The event's id.
    pub id: EventId,
    /// The slot or lane that contains the row.
    pub slot: Slot,
    /// The status.
    pub status: Status,
    /// The failed attempts.
    pub attempts: u32,
    /// When the row was written.
    pub created_at: Timestamp,
    /// The earliest time of delivery.
    pub available_at: Timestamp,
    /// The latest time of delivery.
    pub expires_at: Option<Timestamp>,
    /// When it became done or dead.
    pub done_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// The owner of the claim under which it became done or dead.
    pub processed_by: Option<String>,
    /// The owner of its current claim.
    pub locked_by: Option<String>,
    /// When that claim expires.
    pub locked_until: Option<Timestamp>,
    /// The token of its last claim; zero if it was never claimed.
    pub token: Token,
    /// The group, if it has one.
    pub group: Option<GroupKey>,
    /// The event.
    pub event: Decoded,
}

/// A record of a row that has not ended and that nobody has claimed.
impl From<Row> for Record {
    fn from(row: Row) -> Self {
        let Row { seq, id, slot, status, attempts, created_at, available_at, expires_at, .. } = row;
        Self {
            seq,
            id,
            slot,
            status,
            attempts,
            created_at,
            available_at,
            expires_at,
            done_at: None,
            last_error: row.last_error,
            processed_by: None,
            locked_by: None,
            locked_until: None,
            token: row.token,
            group: row.group,
            event: row.event,
        }
    }
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the attempt, from 1.
    pub number: u32,
    /// When it failed.
    pub at: Timestamp,
    /// The node or owner that made the attempt.
    pub by: String,
    /// The error that the attempt failed with.
    pub error: String,
}
