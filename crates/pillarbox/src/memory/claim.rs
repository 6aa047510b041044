//! Claiming rows under a lease.

use std::sync::Arc;

use jiff::Timestamp;

use super::state::State;
use super::stored::{Lock, Stored};
use super::time::{earlier, later};
use crate::model::{Lane, Row, Token};
use crate::port::{Claim, ClaimFrom};

impl State {
    pub(super) fn claim(&mut self, request: &Claim, now: Timestamp) -> Vec<Row> {
        let by: Arc<str> = request.owner.as_str().into();
        let until = later(now, request.lease);
        let claimed = self.claimable(request, now);
        for seq in &claimed {
            self.change(*seq, |row| {
                row.lock = Some(Lock { by: Arc::clone(&by), until });
                row.token = Token(row.token.0 + 1);
                row.attempts = row.attempts.saturating_add(1);
            });
        }
        claimed.into_iter().map(|seq| self.rows[&seq].to_row(seq, self.rows[&seq].token)).collect()
    }

    fn claimable(&self, request: &Claim, now: Timestamp) -> Vec<i64> {
        let oldest = earlier(now, request.skip_recent);
        let free = |row: &Stored| {
            row.available_at <= now
                && !row.is_claimed(now)
                && (request.skip_recent.is_zero() || row.created_at <= oldest)
        };
        let free = |seq: &i64| free(&self.rows[seq]);
        match request.from {
            ClaimFrom::Queue => self.index.due(Lane::QUEUE, now).filter(free).take(request.rows).collect(),
            ClaimFrom::Events => {
                let lanes = [Lane::DELAYED.0..=i16::MAX];
                self.index.rows(&lanes, i64::MIN).filter(free).take(request.rows).collect()
            }
        }
    }
}
