//! Promotion: moves due rows out of lane −1 to the end of the order.

use jiff::Timestamp;

use super::state::State;
use super::time::until;
use crate::model::Lane;
use crate::port::{Order, Promote, Promoted};

impl State {
    pub(super) fn promote(&mut self, request: &Promote, now: Timestamp) -> Promoted {
        if !self.members.has(request.node) {
            return Promoted::default();
        }
        let due: Vec<i64> = self.index.due(Lane::DELAYED, now).take(request.rows).collect();
        for seq in &due {
            self.renumber(*seq, |row| {
                let to_slot = request.order == Order::PerGroup && row.group.is_some();
                row.lane = (!to_slot).then_some(request.lane);
            });
        }
        let next_due = self.index.next_due(Timestamp::MIN);
        let later = next_due.filter(|at| *at <= now).and_then(|_| self.index.next_due(now));
        let [next_due, later] = [next_due, later].map(|at| at.map(|at| until(now, at)));
        Promoted { moved: due.len(), next_due, later }
    }
}
