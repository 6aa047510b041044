//! The row of a memory store.

use std::sync::Arc;

use jiff::Timestamp;

use super::hash::slot_of;
use super::time::cut;
use crate::model::{
    Attempt, Decoded, Event, EventId, GLOBAL, GroupKey, Lane, Malformed, NewRow, Placement, Record, Row, Seq,
    Slot, Status, Token,
};
use crate::port::ByteLimits;

/// A claim on a row, or the mark of a leader that took it.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    pub(super) by: Arc<str>,
    pub(super) until: Timestamp,
}

/// All columns of a row except its sequence number.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) id: EventId,
    pub(super) event: Decoded,
    /// Event type of a malformed row; a decoded event contains its own.
    pub(super) unread_type: Option<String>,
    pub(super) group: Option<GroupKey>,
    pub(super) lane: Option<Lane>,
    /// Slot of the row while it is in no lane.
    pub(super) home: i16,
    pub(super) status: Status,
    pub(super) attempts: u32,
    pub(super) created_at: Timestamp,
    pub(super) available_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) done_at: Option<Timestamp>,
    pub(super) last_error: Option<String>,
    pub(super) processed_by: Option<String>,
    pub(super) lock: Option<Lock>,
    /// Whether its last claim was reaped, and the row has not been settled or claimed since.
    pub(super) reaped: bool,
    pub(super) token: Token,
    /// Whether it is or was a step of a join.
    pub(super) joined: bool,
    pub(super) history: Vec<Attempt>,
}

impl Stored {
    /// Creates a new row in its lane: the queue, −1 if it is delayed, or as placed.
    pub(super) fn new(row: &NewRow, now: Timestamp) -> Self {
        let event = row.event.clone();
        let due = event.due().map_or(now, |due| cut(due.resolve(now)));
        let delayed = due > now;
        let lane = match row.placement {
            Placement::Queue => Some(Lane::QUEUE),
            _ if delayed => Some(Lane::DELAYED),
            Placement::Lane(lane) => Some(lane),
            Placement::Slot => None,
        };
        Self {
            lane,
            available_at: due.max(now),
            expires_at: event.expires().map(|expires| cut(expires.resolve(now))),
            ..Self::unplaced(event.id().clone(), GroupKey::of(&event), Ok(event), now)
        }
    }

    /// Creates a new row in the slot of its group, or of its id if it has no group.
    pub(super) fn unplaced(id: EventId, group: Option<GroupKey>, event: Decoded, now: Timestamp) -> Self {
        Self {
            home: slot_of(group.as_ref().map_or(id.as_str(), GroupKey::as_str)),
            id,
            event,
            unread_type: None,
            group,
            lane: None,
            status: Status::New,
            attempts: 0,
            created_at: now,
            available_at: now,
            expires_at: None,
            done_at: None,
            last_error: None,
            processed_by: None,
            lock: None,
            reaped: false,
            token: Token::default(),
            joined: false,
            history: Vec::new(),
        }
    }

    pub(super) fn slot(&self) -> Slot {
        self.lane.map_or(Slot(self.home), Lane::slot)
    }

    pub(super) fn message_id(&self) -> Option<&str> {
        self.event.as_ref().ok().and_then(Event::message_id)
    }

    pub(super) fn event_type(&self) -> &str {
        self.event.as_ref().map_or(self.unread_type.as_deref().unwrap_or_default(), Event::event_type)
    }

    pub(super) fn aggregate_type(&self) -> &str {
        self.event.as_ref().map_or(GLOBAL, Event::aggregate_type)
    }

    /// Whether a claim on the row has not expired.
    pub(super) fn is_claimed(&self, now: Timestamp) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.until > now)
    }

    /// Whether its last claim expired without an outcome. The caller must have checked that no claim is live.
    pub(super) fn has_lapsed(&self) -> bool {
        self.lock.is_some() || self.reaped
    }

    /// Removes a claim, and the trace of a reaped one.
    pub(super) fn unlock(&mut self) -> Option<Lock> {
        self.reaped = false;
        self.lock.take()
    }

    /// Moves the row to lane −1; rows of the queue stay in their lane.
    pub(super) fn put_off(&mut self) {
        if self.lane != Some(Lane::QUEUE) {
            self.lane = Some(Lane::DELAYED);
        }
    }

    /// Marks the row as done or dead.
    pub(super) fn end(&mut self, status: Status, now: Timestamp) {
        self.status = status;
        self.done_at = Some(now);
        self.unlock();
    }

    /// Makes the row new again. Number, lane, token and history stay unchanged.
    pub(super) fn revive(&mut self, now: Timestamp) {
        self.status = Status::New;
        self.attempts = 0;
        self.available_at = now;
        self.done_at = None;
        self.last_error = None;
        self.processed_by = None;
        self.unlock();
    }

    /// Converts the row for delivery. A row above the size limit is returned without its event.
    pub(super) fn to_row(&self, seq: i64, token: Token, limits: &ByteLimits) -> Row {
        let size = self.size(token);
        Row {
            seq: Seq(seq),
            id: self.id.clone(),
            slot: self.slot(),
            status: self.status,
            attempts: self.attempts,
            created_at: self.created_at,
            available_at: self.available_at,
            expires_at: self.expires_at,
            token,
            last_error: self.last_error.clone().filter(|_| size <= limits.row),
            lapsed: false,
            group: self.group.clone(),
            bytes: Some(size).filter(|size| *size <= limits.row).unwrap_or_default(),
            event: if size > limits.row {
                Err(Malformed::too_large(size, limits.row))
            } else {
                self.event.clone()
            },
        }
    }

    /// Size in bytes for limits. It includes the last error under a token, because claims return it.
    pub(super) fn size(&self, token: Token) -> usize {
        let error = self.last_error.as_ref().filter(|_| token != Token::default());
        self.event.as_ref().map_or(0, Event::size) + error.map_or(0, String::len)
    }

    /// Converts the row for inspection.
    pub(super) fn to_record(&self, seq: i64) -> Record {
        Record {
            done_at: self.done_at,
            processed_by: self.processed_by.clone(),
            locked_by: self.lock.as_ref().map(|lock| lock.by.to_string()),
            locked_until: self.lock.as_ref().map(|lock| lock.until),
            ..self.to_row(seq, self.token, &ByteLimits::NONE).into()
        }
    }
}
