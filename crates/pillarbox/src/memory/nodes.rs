//! Membership: registers, renews and evicts nodes, and distributes slots, by the rules that all stores share.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use super::state::{NodeDetails, State};
use super::time::later;
use crate::model::{NodeId, Seq, Slot};
use crate::port::{GroupStates, Heartbeat, HeldGroups, Membership, PendingRows, Register};
use crate::rules::Member;

impl State {
    /// Registers a node. Returns `None` and changes nothing if a live node has this id.
    pub(super) fn register(&mut self, request: &Register, now: Timestamp) -> Option<Membership> {
        if self.members.get(request.node).is_some_and(|node| node.expires_at > now) {
            return None;
        }
        self.members.begin_call();
        self.evict(now, None);
        let lane = self.members.free_lane(request.reads);
        let details = NodeDetails { label: request.label.clone(), joined_at: now, state: None };
        let expires_at = later(now, request.lease);
        let node = Member { id: request.node, lane, expires_at, details };
        self.members.add(node, |node| node.details.joined_at);
        self.members.take(request.node, &[lane.slot()]);
        Some(self.membership(request.node, &[], None, Seq(0), now))
    }

    pub(super) fn heartbeat(&mut self, request: &Heartbeat, now: Timestamp) -> Option<Membership> {
        if !self.members.renew(request.node, later(now, request.lease)) {
            return None;
        }
        self.members.begin_call();
        self.evict(now, Some(request.node));
        self.members.trust(request.node, &request.trusted);
        self.members.release(request.node, &request.release);
        if request.sweep {
            let lanes: Vec<Slot> = self.index.lanes().into_iter().map(Slot).collect();
            self.members.add_lanes(&lanes);
        }
        let seen = Some(request.groups_seen);
        Some(self.membership(request.node, &request.release, seen, request.after, now))
    }

    pub(super) fn publish(&mut self, node: NodeId, state: String) {
        if let Some(node) = self.members.get_mut(node) {
            node.details.state = Some(state);
        }
    }

    pub(super) fn leave(&mut self, node: NodeId) {
        self.members.leave(node);
    }

    fn evict(&mut self, now: Timestamp, renewing: Option<NodeId>) {
        let expired = self.members.expired(now, renewing);
        // An evicted node cannot have read rows that were written later, so those are not suspect. A leader
        // numbers rows itself, so a bound by sequence number means nothing to the next leader.
        let upto = (!self.has_leader).then(|| Seq(self.highest_pending()));
        self.members.evict(&expired, upto);
    }

    fn highest_pending(&self) -> i64 {
        let mut rows = self.rows.iter().rev();
        rows.find(|(_, row)| row.status.is_pending()).map_or(0, |(seq, _)| *seq)
    }

    /// Takes free slots up to the node's share, and reports its membership.
    fn membership(
        &mut self,
        node: NodeId,
        releasing: &[Slot],
        groups_seen: Option<i64>,
        after: Seq,
        now: Timestamp,
    ) -> Membership {
        let share = self.members.share(node, releasing);
        self.members.take(node, &share.take);
        let groups = (groups_seen != Some(self.epoch))
            .then(|| GroupStates { epoch: self.epoch, held: self.held_groups(&HeldGroups::first()) });
        let slots: Vec<RangeInclusive<i16>> =
            self.members.held_by(node).map(|held| held.state.slot.0..=held.state.slot.0).collect();
        let first = self.index.rows(&slots, i64::MIN).next();
        let rows = PendingRows {
            ready: self.index.rows(&slots, after.0.saturating_add(1)).next().is_some(),
            oldest: first.map(|seq| self.rows[&seq].created_at),
            next_due: self.index.next_due(Timestamp::MIN),
        };
        self.members.membership(node, share.give, groups, now).with_rows(rows)
    }
}
