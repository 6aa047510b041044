//! The operations of a leader: takes rows of many groups, and releases rows that no process has in memory.

use std::sync::Arc;

use jiff::Timestamp;

use super::state::State;
use super::stored::{Lock, Stored};
use super::time::earlier;
use crate::model::{GroupKey, NodeId, Slot, Token};
use crate::port::{Recover, Take, Taken};

impl State {
    fn leads(&self, node: NodeId) -> bool {
        self.members.held_by(node).any(|held| held.state.slot == Slot(0))
    }

    pub(super) fn take_led(&mut self, request: &Take, now: Timestamp) -> Taken {
        if !self.leads(request.node) {
            return Taken { leads: false, rows: Vec::new() };
        }
        let by: Arc<str> = request.node.to_string().into();
        let taken = self.fitting(self.next_of_groups(request), &request.bytes);
        for seq in &taken {
            self.change(*seq, |row| {
                row.lock = Some(Lock { by: Arc::clone(&by), until: now });
                row.token = Token(row.token.0 + 1);
                row.attempts = row.attempts.saturating_add(1);
            });
        }
        let row = |seq| {
            let row: &Stored = &self.rows[&seq];
            row.to_row(seq, row.token, &request.bytes)
        };
        Taken { leads: true, rows: taken.into_iter().map(row).collect() }
    }

    /// At most `each` rows of each group, in the order of groups and numbers.
    fn next_of_groups(&self, request: &Take) -> Vec<i64> {
        let mut free: Vec<(Option<&GroupKey>, i64)> = self
            .rows
            .iter()
            .filter(|(_, row)| row.status.is_pending() && row.lock.is_none())
            .map(|(seq, row)| (row.group.as_ref(), *seq))
            .filter(|(group, _)| match group {
                Some(group) => {
                    request.after.as_ref().is_none_or(|after| *group > after)
                        && !request.except.contains(group)
                        && !self.groups.contains_key(*group)
                }
                None => request.after.is_none(),
            })
            .collect();
        free.sort_unstable();
        let mut taken = Vec::new();
        for of_group in free.chunk_by(|one, other| one.0 == other.0) {
            let most = if of_group[0].0.is_none() { request.ungrouped } else { request.each };
            let room = request.rows - taken.len();
            taken.extend(of_group.iter().map(|(_, seq)| *seq).take(most.min(room)));
        }
        taken
    }

    pub(super) fn recover(&mut self, request: &Recover, now: Timestamp) -> u64 {
        if !self.leads(request.node) {
            return 0;
        }
        let before = earlier(now, request.older_than);
        let left = |row: &Stored| {
            row.status.is_pending()
                && row.lock.as_ref().is_some_and(|lock| request.older_than.is_zero() || lock.until < before)
                && !request.except.contains(&row.id)
        };
        let rows = self.rows.iter().filter(|(_, row)| left(row)).map(|(seq, _)| *seq);
        let rows: Vec<i64> = rows.take(request.rows).collect();
        for seq in &rows {
            self.change(*seq, |row| {
                row.lock = None;
                row.attempts = row.attempts.saturating_sub(1);
            });
        }
        rows.len() as u64
    }
}
