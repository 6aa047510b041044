//! Why events wait for their endpoint, on its way to their rows.

use super::settle_queue::Unsettled;
use crate::engine::Map;
use crate::model::EventId;
use crate::port::Change;

/// Notes that wait to be written. What does not fit is left out until its error changes.
const MOST: usize = 1_000;

/// The last note of each event. Notes are written apart from outcomes, so that no statement changes a row twice.
#[derive(Debug, Default)]
pub(crate) struct Notes(Map<EventId, Unsettled>);

impl Notes {
    /// Whether it is one more.
    pub(super) fn put(&mut self, note: Unsettled) -> bool {
        let fresh = !self.0.contains_key(&note.outcome.id);
        if fresh && self.0.len() >= MOST {
            return false;
        }
        self.0.insert(note.outcome.id.clone(), note);
        fresh
    }

    /// An outcome tells more than a note; the note that goes.
    pub(super) fn drop_for(&mut self, unsettled: &Unsettled) -> Option<Unsettled> {
        let outcome = &unsettled.outcome;
        let tells = matches!(outcome.change, Change::Done | Change::Retry { .. } | Change::Dead { .. });
        if self.0.is_empty() || !tells { None } else { self.0.remove(&outcome.id) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes at most this many.
    pub(super) fn take(&mut self, rows: usize) -> Vec<Unsettled> {
        let ids: Vec<EventId> = self.0.keys().take(rows).cloned().collect();
        ids.iter().filter_map(|id| self.0.remove(id)).collect()
    }
}
