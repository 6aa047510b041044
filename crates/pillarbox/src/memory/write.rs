//! Adding rows: drafted first, then added all at once.

use jiff::Timestamp;

use super::hash::FixedMap;
use super::state::State;
use super::stored::Stored;
use crate::model::{EventId, Lane, NewRow, Seq, Written};

/// Rows that have their numbers but are not in the table yet.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) rows: Vec<(i64, Stored)>,
    ids: FixedMap<EventId, ()>,
    messages: FixedMap<Box<str>, usize>,
}

/// An event with this id is there already.
#[derive(Debug)]
pub(super) struct Taken(pub(super) EventId);

impl Draft {
    /// Adds rows to the draft, or none of them.
    pub(super) fn extend(
        &mut self,
        state: &mut State,
        rows: &[NewRow],
        now: Timestamp,
    ) -> Result<Vec<Written>, Taken> {
        let (before, last) = (self.rows.len(), state.last);
        let mut written = Vec::with_capacity(rows.len());
        for row in rows {
            match self.push(state, row, now) {
                Ok(one) => written.push(one),
                Err(taken) => {
                    self.truncate(before);
                    state.last = last;
                    return Err(taken);
                }
            }
        }
        Ok(written)
    }

    fn push(&mut self, state: &mut State, row: &NewRow, now: Timestamp) -> Result<Written, Taken> {
        if let Some(message) = row.event.message_id() {
            if let Some(first) = self.messages.get(message).map(|place| &self.rows[*place]) {
                return Ok(written(first.0, &first.1, false));
            }
            if let Some((seq, first)) =
                state.by_message.get(message).and_then(|seq| state.rows.get_key_value(seq))
            {
                return Ok(written(*seq, first, false));
            }
            self.messages.insert(message.into(), self.rows.len());
        }
        let id = row.event.id();
        if state.by_id.contains_key(id) || self.ids.insert(id.clone(), ()).is_some() {
            return Err(Taken(id.clone()));
        }
        let stored = Stored::new(row, now);
        let seq = state.draw();
        let answer = written(seq, &stored, true);
        self.rows.push((seq, stored));
        Ok(answer)
    }

    fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
        self.recount();
    }

    /// Takes a drafted row back; false if it is not in the draft.
    pub(super) fn remove(&mut self, id: &EventId) -> bool {
        let before = self.rows.len();
        self.rows.retain(|(_, row)| row.id != *id);
        self.recount();
        self.rows.len() < before
    }

    fn recount(&mut self) {
        let message = |(place, (_, row)): (usize, &(i64, Stored))| Some((row.message_id()?.into(), place));
        self.messages = self.rows.iter().enumerate().filter_map(message).collect();
        self.ids = self.rows.iter().map(|(_, row)| (row.id.clone(), ())).collect();
    }

    /// Whether another transaction has added one of these events since they were drafted.
    pub(super) fn clash(&self, state: &State) -> Option<Taken> {
        let clashes = |row: &Stored| {
            state.by_id.contains_key(&row.id)
                || row.message_id().is_some_and(|message| state.by_message.contains_key(message))
        };
        self.rows.iter().find(|(_, row)| clashes(row)).map(|(_, row)| Taken(row.id.clone()))
    }

    /// Adds all rows; how many.
    pub(super) fn apply(self, state: &mut State) -> usize {
        let count = self.rows.len();
        for (seq, row) in self.rows {
            state.add(seq, row);
        }
        count
    }
}

fn written(seq: i64, row: &Stored, fresh: bool) -> Written {
    Written { id: row.id.clone(), seq: Seq(seq), fresh, delayed: row.lane == Some(Lane::DELAYED) }
}
