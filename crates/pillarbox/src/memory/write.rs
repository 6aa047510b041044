//! Writing: rows are drafted first, which reserves their ids like a unique index, and then added together.

use std::collections::hash_map::Entry;

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use crate::model::{EventId, Lane, NewRow, Seq, Written};

/// Rows that have their numbers and ids but are not in the table yet. Other writers cannot use those ids.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Rows in ascending order of numbers.
    pub(super) rows: Vec<(i64, Box<Stored>)>,
}

/// The error of an event whose id or message id exists already, in the table or in an open transaction.
#[derive(Debug)]
pub(super) struct Taken(pub(super) EventId);

impl Draft {
    /// Adds rows to the draft: all or none.
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
                    self.withdraw(state, before);
                    state.last = last;
                    return Err(taken);
                }
            }
        }
        Ok(written)
    }

    fn push(&mut self, state: &mut State, row: &NewRow, now: Timestamp) -> Result<Written, Taken> {
        let id = row.event.id();
        if let Some(&seq) = row.event.message_id().and_then(|message| state.by_message.get(message)) {
            let first = self.find(seq).or_else(|| state.rows.get(&seq).map(|row| &**row));
            return first.map(|first| written(seq, first, false)).ok_or_else(|| Taken(id.clone()));
        }
        let seq = state.last + 1;
        match state.by_id.entry(id.clone()) {
            Entry::Occupied(_) => return Err(Taken(id.clone())),
            Entry::Vacant(vacant) => vacant.insert(seq),
        };
        state.last = seq;
        if let Some(message) = row.event.message_id() {
            state.by_message.insert(message.into(), seq);
        }
        let stored = Box::new(Stored::new(row, now));
        let answer = written(seq, &stored, true);
        self.rows.push((seq, stored));
        Ok(answer)
    }

    fn find(&self, seq: i64) -> Option<&Stored> {
        let place = self.rows.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(&self.rows[place].1)
    }

    /// Removes one row from the draft. Returns false if it is not in the draft.
    pub(super) fn remove(&mut self, state: &mut State, id: &EventId) -> bool {
        let place = self.rows.iter().position(|(_, row)| row.id == *id);
        place.map(|place| state.forget(&self.rows.remove(place).1)).is_some()
    }

    /// Removes all rows from this index on, and frees their ids.
    pub(super) fn withdraw(&mut self, state: &mut State, from: usize) {
        for (_, row) in self.rows.drain(from..) {
            state.forget(&row);
        }
    }

    /// Adds all rows to the table, and returns their number.
    pub(super) fn apply(self, state: &mut State) -> usize {
        let count = self.rows.len();
        for (seq, row) in self.rows {
            state.place(seq, row);
        }
        count
    }
}

fn written(seq: i64, row: &Stored, fresh: bool) -> Written {
    Written { id: row.id.clone(), seq: Seq(seq), fresh, delayed: row.lane == Some(Lane::DELAYED) }
}
