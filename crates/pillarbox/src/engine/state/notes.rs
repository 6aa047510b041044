//! Notes: errors of events that wait for their endpoint, to be stored in their rows.

use super::settle_queue::Unsettled;
use crate::engine::Map;
use crate::model::EventId;
use crate::port::Change;

/// Maximum number of unwritten notes. A note that does not fit is dropped, until the event's error changes.
const MOST: usize = 1_000;

/// The last note of each event. Notes are written separately from outcomes, so that no
/// statement changes a row twice.
#[derive(Debug, Default)]
pub(crate) struct Notes(Map<EventId, Unsettled>);

impl Notes {
    /// Adds or replaces a note. Returns true if the number of notes increased.
    pub(super) fn put(&mut self, note: Unsettled) -> bool {
        let fresh = !self.0.contains_key(&note.outcome.id);
        if fresh && self.0.len() >= MOST {
            return false;
        }
        self.0.insert(note.outcome.id.clone(), note);
        fresh
    }

    /// Removes the note of an event whose outcome stores an error or ends the event, and returns it.
    pub(super) fn drop_for(&mut self, unsettled: &Unsettled) -> Option<Unsettled> {
        let outcome = &unsettled.outcome;
        let tells = matches!(outcome.change, Change::Done | Change::Retry { .. } | Change::Dead { .. });
        if self.0.is_empty() || !tells { None } else { self.0.remove(&outcome.id) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes at most `rows` notes.
    pub(super) fn take(&mut self, rows: usize) -> Vec<Unsettled> {
        let ids: Vec<EventId> = self.0.keys().take(rows).cloned().collect();
        ids.iter().filter_map(|id| self.0.remove(id)).collect()
    }
}
