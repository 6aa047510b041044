//! Claims: rows that an owner holds under a lease, and that are renewed together.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::Map;
use super::core::{Core, Meanwhile, Phase};
use super::item::Item;
use super::judge::Then;
use crate::model::{EventId, Row, Seq, Token};
use crate::port::{ByteLimits, Change, Claimed, Counts, Outcome, Settled, Source, Wait};

/// A message that nobody listens to is tried again after its age, within these bounds.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A moment of the database's clock on ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) database: Timestamp,
    pub(crate) here: Instant,
}

/// A claim on a row.
#[derive(Debug, Clone, Copy)]
struct Held {
    seq: Seq,
    token: Token,
    /// The claim before this one ran out, and no attempt was written since.
    lapsed: bool,
}

impl Held {
    /// Gives the row back, its attempt not counted. A release would erase that the claim before ran out, and with it what
    /// makes the next owner careful: such a claim is made to run out too.
    fn back(self, id: EventId) -> Outcome {
        let change = if self.lapsed { Change::Extend { lease: Duration::ZERO } } else { Change::Release };
        Outcome { seq: self.seq, id, token: self.token, change }
    }
}

/// The claims that are held.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Map<EventId, Held>,
    /// Someone waits for room to claim more.
    wanted: bool,
    /// A row was given back because an outcome of it was still on its way; it can be had once that has arrived.
    again: bool,
}

impl Claims {
    /// An outcome is in the store, or will never be: the claim needs no renewal.
    pub(crate) fn end(&mut self, id: &EventId, token: Token) {
        if self.held.get(id).is_some_and(|held| held.token == token) {
            self.held.remove(id);
        }
    }

    /// A row was taken under leadership.
    pub(crate) fn begin(&mut self, id: EventId, seq: Seq, token: Token) {
        self.held.insert(id, Held { seq, token, lapsed: false });
    }

    /// An attempt on this row is in the store: it counts, whatever becomes of the claim.
    pub(crate) fn attempt_written(&mut self, id: &EventId) {
        if let Some(held) = self.held.get_mut(id) {
            held.lapsed = false;
        }
    }

    /// The rows in hand.
    pub(crate) fn ids(&self) -> Vec<EventId> {
        self.held.keys().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }

    /// Whether an item is under a claim that is not held any more.
    pub(crate) fn lost(&self, item: &Item) -> bool {
        item.is_taken() && self.held.get(item.id()).is_none_or(|held| held.token != item.token)
    }
}

impl Core {
    /// Rows that were claimed come in. Work on them may go on until `until`, unless they are renewed. What comes after the
    /// end of intake, or is still in hand here, is answered: to be given back.
    #[must_use]
    pub(crate) fn take_claimed(
        &mut self,
        rows: Vec<Row>,
        clock: Clock,
        until: Instant,
        now: Instant,
    ) -> Vec<Outcome> {
        let back = |row: Row| Held { seq: row.seq, token: row.token, lapsed: row.lapsed }.back(row.id);
        if self.phase != Phase::Running {
            return rows.into_iter().map(back).collect();
        }
        if self.claims.held.is_empty() {
            self.lease_until = Some(until);
            self.halted = false;
        }
        let mut given_back = Vec::new();
        for row in rows {
            // Claimed again before the answer to its last outcome: never twice at once, and nobody waits for a lease to end.
            if row.event.as_ref().is_ok_and(|event| !self.known.admit(event.id(), row.seq)) {
                given_back.push(back(row));
                continue;
            }
            match row.event {
                Ok(event) => {
                    let held = Held { seq: row.seq, token: row.token, lapsed: row.lapsed };
                    self.claims.held.insert(row.id, held);
                    let claimed =
                        Claimed { token: row.token, created_at: row.created_at, last_error: row.last_error };
                    let item = Item {
                        attempts: row.attempts,
                        token: row.token,
                        counted: true,
                        // The process that held it may have ended by it.
                        careful: row.lapsed,
                        claimed: Some(Arc::new(claimed)),
                        expires: row.expires_at.map(|at| Self::local(at, clock.database, clock.here)),
                        age: Some((clock.age_of(row.created_at), clock.here)),
                        ..self.item(event, row.seq, row.slot, Source::Cold)
                    };
                    self.tally.cold += 1;
                    self.enter(&item);
                    self.lines.push(item);
                }
                Err(why) => {
                    let error = why.error();
                    self.tally.undecodable.push((row.id.clone(), error.clone()));
                    let change = Change::Dead { error, counts: Counts::None, blocks: None };
                    let outcome = Outcome { seq: row.seq, id: row.id, token: row.token, change };
                    self.push_unsettled(super::core::Unsettled { outcome, slot: row.slot, group: None }, now);
                }
            }
        }
        given_back
    }

    /// What could not be taken in is free again: another look is worth it once the outcomes here are in the store.
    pub(crate) fn gave_back(&mut self) {
        self.claims.again = self.phase == Phase::Running;
    }

    /// What renews every claim that is held, in the order in which rows are locked.
    pub(crate) fn extensions(&self, lease: Duration) -> Vec<Outcome> {
        let extend = |(id, held): (&EventId, &Held)| Outcome {
            seq: held.seq,
            id: id.clone(),
            token: held.token,
            change: Change::Extend { lease },
        };
        let mut extensions: Vec<Outcome> = self.claims.held.iter().map(extend).collect();
        extensions.sort_by_key(|outcome| outcome.seq);
        extensions
    }

    /// The answer to that: what is stale is another's now. How many those are.
    pub(crate) fn extended(&mut self, outcomes: &[Outcome], settled: &Settled, until: Instant) -> usize {
        for place in &settled.stale {
            self.claims.end(&outcomes[*place].id, outcomes[*place].token);
        }
        self.lease_until = Some(until);
        self.halted = false;
        settled.stale.len()
    }

    /// Until when claims may be worked on.
    pub(crate) fn claimed_until(&self) -> Option<Instant> {
        self.lease_until.filter(|_| !self.claims.held.is_empty())
    }

    /// How many more may be claimed, and of how many bytes; with none, a signal tells when there is room.
    pub(crate) fn room_for_claims(&mut self) -> (usize, ByteLimits) {
        let room = self.claimable();
        self.claims.wanted = room < self.read_at_room();
        (room, self.byte_limits(self.cold_room().1))
    }

    /// Claims whose outcome is not in the store yet are held too: claiming far ahead of slow settles would let them run out.
    fn claimable(&self) -> usize {
        if self.phase != Phase::Running {
            return 0;
        }
        let held = (2 * self.settings.cold_rows).saturating_sub(self.claims.held.len());
        held.min(self.cold_room().0)
    }

    /// There is room again for someone who waits for it. Tells once.
    pub(super) fn claims_may_go_on(&mut self) -> bool {
        let room = self.claims.wanted && self.claimable() >= self.read_at_room();
        self.claims.wanted &= !room;
        // What is out may be the very row that was given back: it would be claimed and given back without end.
        let again = self.claims.again && self.out == 0 && self.all_settled();
        self.claims.again &= !again;
        room || again
    }

    /// Every claim without an outcome is given back, its attempt not counted.
    pub(super) fn release_claims(&mut self, now: Instant) {
        let unsettled = self.settles.iter().map(|one| &one.outcome.id).chain(self.busy.ids());
        // What is being written for a careful delivery is given back when that is known to be written.
        let unsettled: Vec<EventId> = unsettled.chain(self.careful.writing()).cloned().collect();
        let held: Vec<_> = self.claims.held.iter().map(|(id, held)| (id.clone(), *held)).collect();
        for (id, held) in held {
            if !unsettled.contains(&id) {
                let outcome = held.back(id);
                let slot = crate::model::Lane::QUEUE.slot();
                self.push_unsettled(super::core::Unsettled { outcome, slot, group: None }, now);
            }
        }
    }

    pub(super) fn within_grace(&self, item: &Item, now: Instant) -> bool {
        item.age(now).is_some_and(|age| age < self.settings.no_route_grace)
    }

    /// Nobody listens yet, perhaps because a newer release is still to come: no attempt is counted.
    pub(super) fn wait_for_a_listener(&mut self, item: Item, route: &str, now: Instant) -> Then {
        let delay = item.age(now).unwrap_or_default().clamp(SHORTEST_WAIT, LONGEST_WAIT);
        let error = format!("no listener for {route}");
        let change = Change::Retry { delay, error, counts: Counts::Back, wait: Wait::InPlace };
        self.settle_later(item, change, Meanwhile::GoesOn, now);
        Then::Stop
    }
}

impl Clock {
    /// How old something was at that moment.
    fn age_of(self, at: Timestamp) -> Duration {
        Duration::try_from(self.database.duration_since(at)).unwrap_or_default()
    }
}

impl Item {
    /// How old it is, if that is known.
    fn age(&self, now: Instant) -> Option<Duration> {
        self.age.map(|(age, at)| age + now.saturating_duration_since(at))
    }
}
