//! Inspection: lists, single events, counts, statistics and nodes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use jiff::Timestamp;

use super::state::{NodeDetails, State};
use super::time::{earlier, until};
use crate::model::{EventId, Lane, Malformed, Record, Seq, Status};
use crate::port::{Contents, GroupState, List, NodeInfo, PageOrder, Select, Shown, Stats, TypeCount};
use crate::rules::Member;

const MINUTE: Duration = Duration::from_secs(60);

impl State {
    pub(super) fn list(&self, request: &List) -> Vec<Record> {
        let after = request.after.map_or(Bound::Unbounded, |Seq(seq)| Bound::Excluded(seq));
        let rows: Box<dyn Iterator<Item = _>> = match request.order {
            PageOrder::OldestFirst => Box::new(self.rows.range((after, Bound::Unbounded))),
            PageOrder::NewestFirst => Box::new(self.rows.range((Bound::Unbounded, after)).rev()),
        };
        rows.filter(|(_, row)| row.matches(&request.select))
            .take(request.limit)
            .map(|(seq, row)| match request.contents {
                Contents::Whole => row.to_record(*seq),
                Contents::LeftOut => Record { event: Err(Malformed::left_out()), ..row.to_record(*seq) },
            })
            .collect()
    }

    pub(super) fn show(&self, id: &EventId) -> Option<Shown> {
        let seq = self.find(id)?;
        let row = &self.rows[&seq];
        Some(Shown { record: row.to_record(seq), attempts: row.history.clone() })
    }

    pub(super) fn count(&self, select: &Select) -> u64 {
        self.rows.values().filter(|row| row.matches(select)).count() as u64
    }

    pub(super) fn stats(&self, now: Timestamp) -> Stats {
        let minute_ago = earlier(now, MINUTE);
        let held = |state| self.groups.values().filter(|held| held.state == state).count() as u64;
        let mut stats = Stats {
            delayed: self.index.count(Lane::DELAYED),
            free_slots: self.members.slots().iter().filter(|slot| slot.state.holder.is_none()).count() as u64,
            blocked_groups: held(GroupState::Blocked),
            paused_groups: held(GroupState::Paused),
            nodes: self.members.nodes().iter().filter(|node| node.expires_at > now).count() as u64,
            dead_by_type: self.dead_by_type(),
            ..Stats::default()
        };
        let mut oldest: Option<Timestamp> = None;
        for row in self.rows.values() {
            let counts = if row.lane == Some(Lane::QUEUE) { &mut stats.queue } else { &mut stats.events };
            match row.status {
                Status::New => counts.new += 1,
                Status::Done => counts.done += 1,
                Status::Retry => counts.retry += 1,
                Status::Dead => counts.dead += 1,
            }
            stats.written_last_minute += u64::from(row.created_at > minute_ago);
            let done = row.status == Status::Done && row.done_at.is_some_and(|at| at > minute_ago);
            stats.done_last_minute += u64::from(done);
            if row.status.is_pending() && row.available_at <= now {
                oldest = Some(oldest.map_or(row.created_at, |at| at.min(row.created_at)));
            }
        }
        stats.oldest = oldest.map(|at| until(at, now));
        stats
    }

    fn dead_by_type(&self) -> Vec<TypeCount> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for row in self.rows.values().filter(|row| row.status == Status::Dead) {
            *counts.entry(row.event_type()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts
            .into_iter()
            .map(|(event_type, count)| TypeCount { event_type: event_type.to_owned(), count })
            .collect();
        counts.sort_by_key(|one| std::cmp::Reverse(one.count));
        counts
    }

    pub(super) fn node_infos(&self, now: Timestamp) -> Vec<NodeInfo> {
        let info = |node: &Member<NodeDetails>| NodeInfo {
            node: node.id,
            label: node.details.label.clone(),
            lane: node.lane,
            slots: self.members.held_by(node.id).count(),
            joined_at: node.details.joined_at,
            expires_in: (node.expires_at > now).then(|| until(now, node.expires_at)),
            expires_at: node.expires_at,
            state: node.details.state.clone(),
        };
        self.members.nodes().iter().map(info).collect()
    }
}
