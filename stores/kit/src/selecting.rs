//! A statement over the events that an operator selects.

use pillarbox::model::Status;
use pillarbox::port::Select;

/// A statement over a selection, in a form for each way the rows are found.
#[derive(Debug)]
pub struct Selecting<T> {
    /// By reading all rows.
    pub any: T,
    /// By their ids.
    pub among: T,
    /// By the index of pending rows.
    pub pending: T,
    /// By the index of dead rows.
    pub dead: T,
}

impl<T> Selecting<T> {
    /// The form that reads the fewest rows.
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
