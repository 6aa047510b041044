//! A statement on the events that an operator selects.

use pillarbox::model::Status;
use pillarbox::port::Select;

/// A statement on a selection, with one form for each way to find the rows.
#[derive(Debug)]
pub struct Selecting<T> {
    /// Reads all rows.
    pub any: T,
    /// Finds rows by id.
    pub among: T,
    /// Uses the index of pending rows.
    pub pending: T,
    /// Uses the index of dead rows.
    pub dead: T,
}

impl<T> Selecting<T> {
    /// The form that reads the fewest rows for this selection.
    pub fn of(&self, select: &Select) -> &T {
        let only =
            |wanted: fn(&Status) -> bool| !select.statuses.is_empty() && select.statuses.iter().all(wanted);
        if !select.ids.is_empty() {
            &self.among
        } else if only(|status| status.is_pending()) {
            &self.pending
        } else if only(|status| *status == Status::Dead) {
            &self.dead
        } else {
            &self.any
        }
    }
}
