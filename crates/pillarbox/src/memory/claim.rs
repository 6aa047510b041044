//! Claims: takes due rows for an owner under a lease.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::state::State;
use super::stored::{Lock, Stored};
use super::time::{earlier, later};
use crate::model::{Lane, Row, Token};
use crate::port::{ByteLimits, Claim, ClaimFrom, DueTopics, Reap};

impl State {
    pub(super) fn claim(&mut self, request: &Claim, now: Timestamp) -> Vec<Row> {
        let by: Arc<str> = request.owner.as_str().into();
        let until = later(now, request.lease);
        let mut claimed = Vec::new();
        for seq in self.claimable(request, now) {
            let lapsed = self.rows[&seq].has_lapsed();
            self.change(seq, |row| {
                row.unlock();
                row.lock = Some(Lock { by: Arc::clone(&by), until });
                row.token = Token(row.token.0 + 1);
                // The count of an expired claim stays and stands for this attempt; the owner decides whether
                // the expired claim was an attempt of its own.
                row.attempts = row.attempts.saturating_add(u32::from(!lapsed));
            });
            let row = &self.rows[&seq];
            claimed.push(Row { lapsed, ..row.to_row(seq, row.token, &request.bytes) });
        }
        claimed
    }

    /// Topics of messages that could be claimed, except the given ones.
    pub(super) fn due_topics(&self, request: &DueTopics, now: Timestamp) -> Vec<String> {
        let due = self.index.due(Lane::QUEUE, now).map(|seq| &self.rows[&seq]);
        let topics = due.filter(|row| !row.is_claimed(now)).map(|row| row.event_type().to_owned());
        let others: BTreeSet<String> = topics.filter(|topic| !request.except.contains(topic)).collect();
        others.into_iter().take(request.limit).collect()
    }

    /// Frees rows whose claim expired at least `older_than` ago.
    pub(super) fn reap(&mut self, request: &Reap, now: Timestamp) -> u64 {
        let before = earlier(now, request.older_than);
        let over = |row: &Stored| {
            row.status.is_pending() && row.lock.as_ref().is_some_and(|lock| lock.until <= before)
        };
        let rows = self.rows.iter().filter(|(_, row)| over(row)).map(|(seq, _)| *seq);
        let rows: Vec<i64> = rows.take(request.rows).collect();
        for seq in &rows {
            self.change(*seq, |row| {
                row.lock = None;
                row.reaped = true;
            });
        }
        rows.len() as u64
    }

    /// The first of these rows, up to the byte limit.
    pub(super) fn fitting(&self, mut found: Vec<i64>, limits: &ByteLimits) -> Vec<i64> {
        let size = |seq: &i64| {
            let row = &self.rows[seq];
            row.size(Token(row.token.0 + 1))
        };
        let fitting = limits.fitting(found.iter().map(size));
        found.truncate(fitting);
        found
    }

    fn claimable(&self, request: &Claim, now: Timestamp) -> Vec<i64> {
        let oldest = earlier(now, request.skip_recent);
        let free = |row: &Stored| {
            row.available_at <= now
                && !row.is_claimed(now)
                && (request.skip_recent.is_zero() || row.created_at <= oldest)
        };
        let free = |seq: &i64| free(&self.rows[seq]);
        let found: Vec<i64> = match request.from {
            ClaimFrom::Queue => {
                let wanted = |seq: &i64| {
                    request.topics.is_empty()
                        || request.topics.iter().any(|topic| topic == self.rows[seq].event_type())
                };
                let due = self.index.due(Lane::QUEUE, now);
                due.filter(wanted).filter(free).take(request.rows).collect()
            }
            ClaimFrom::Events => {
                let lanes = [Lane::DELAYED.0..=i16::MAX];
                self.index.rows(&lanes, i64::MIN).filter(free).take(request.rows).collect()
            }
        };
        self.fitting(found, &request.bytes)
    }
}
