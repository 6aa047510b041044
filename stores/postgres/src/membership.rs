//! Membership: registers, renews and evicts nodes, and takes and releases slots.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot};
use pillarbox::port::{
    ErrorKind, GroupStates, Heartbeat, HeldGroups, HeldSlot, Membership, Quarantine, Register,
};
use pillarbox::rules::{Share, SlotState, free_lane, share};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Session, Tx};
use crate::error::Failure;
use crate::groups::{held_groups, page_of};
use crate::sql::Sql;
use crate::time::{Time, micros, until};

pub(crate) async fn join(session: &mut Session, sql: &Sql, request: &Register) -> Result<Standing, Failure> {
    let mut tx = session.begin().await?;
    let now = lock(&mut tx, sql, request.now).await?;
    // Evict first, so that the slots of expired nodes are free when the shares are worked out.
    evict(&mut tx, sql, None, now).await?;
    let mut view = View::read(&mut tx, sql).await?;
    if view.nodes.iter().any(|node| node.id == request.node) {
        let detail = format!("node {} is there already", request.node);
        return Err(Failure::Refused(ErrorKind::Conflict, detail));
    }
    let lane = free_lane(request.part, &view.states());
    let query = tx.query(&sql.node_join).bind(request.node.to_string()).bind(&request.label).bind(lane.0);
    let query = query.bind(Time(now)).bind(Time(now)).bind(micros(request.lease));
    query.execute(&mut *tx.tx).await?;
    view.take(&mut tx, sql, request.node, vec![lane.slot()]).await?;
    // Read back with the new row: shares depend on the order in which nodes registered,
    // which only the table knows.
    let taken_suspect = view.taken_suspect;
    let mut view = View { taken_suspect, ..View::read(&mut tx, sql).await? };
    let Share { take, give } = view.share(request.node);
    view.take(&mut tx, sql, request.node, take).await?;
    let groups = Some(group_states(&mut tx, sql).await?);
    tx.commit().await?;
    Ok(view.standing(request.node, give, groups, now))
}

pub(crate) async fn heartbeat(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Standing>, Failure> {
    let quiet = request.trusted.is_empty() && request.release.is_empty() && !request.sweep;
    match if quiet { renew_quietly(session, sql, request).await? } else { Quiet::No } {
        Quiet::Gone => Ok(None),
        Quiet::Yes(standing) => Ok(Some(*standing)),
        Quiet::No => rearrange(session, sql, request).await,
    }
}

pub(crate) async fn publish(
    session: &mut Session,
    sql: &Sql,
    node: NodeId,
    state: &str,
) -> Result<(), Failure> {
    let query = session.query(&sql.node_publish).bind(node.to_string()).bind(state);
    query.execute(&mut session.connection).await?;
    Ok(())
}

pub(crate) async fn leave(session: &mut Session, sql: &Sql, node: NodeId) -> Result<(), Failure> {
    let mut tx = session.begin().await?;
    lock(&mut tx, sql, None).await?;
    tx.query(&sql.node_leave).bind(node.to_string()).execute(&mut *tx.tx).await?;
    tx.commit().await
}

/// A node's membership, without its waiting rows.
pub(crate) struct Standing {
    membership: Membership,
}

impl Standing {
    /// The slots in which to look for waiting rows.
    pub(crate) fn slots(&self) -> Vec<i16> {
        self.membership.held.iter().map(|held| held.slot.0).collect()
    }

    /// Adds the waiting rows. `None` means that the query failed or took too long: `ready` is then set, so
    /// that the reader looks itself.
    pub(crate) fn with(self, waiting: Option<Waiting>) -> Membership {
        let now = self.membership.now;
        match waiting {
            None => Membership { ready: true, ..self.membership },
            Some(waiting) => Membership {
                ready: waiting.ready,
                oldest: waiting.oldest,
                next_due: waiting.next_due.map(|due| until(now, due)),
                ..self.membership
            },
        }
    }
}

/// The rows that wait for a node: whether there are any, the oldest one, and when the
/// next delayed row is due.
pub(crate) struct Waiting {
    ready: bool,
    oldest: Option<Timestamp>,
    next_due: Option<Timestamp>,
}

/// Looks for rows above a sequence number. This is not part of the heartbeat's own call, so a slow query
/// cannot cost the node its lease.
pub(crate) async fn waiting(
    session: &mut Session,
    sql: &Sql,
    slots: Vec<i16>,
    after: Seq,
) -> Result<Waiting, Failure> {
    let query = session.query(&sql.waiting).bind(after.0);
    let query = query.bind(slots.iter().min().copied()).bind(slots.iter().max().copied()).bind(slots);
    let row = query.fetch_one(&mut session.connection).await?;
    let time = |column| row.try_get::<Option<Time>, _>(column).map(|time| time.map(|time| time.0));
    Ok(Waiting { ready: row.try_get(0)?, oldest: time(1)?, next_due: time(2)? })
}

/// Whether a heartbeat needed only a renewal.
enum Quiet {
    Yes(Box<Standing>),
    /// There is work that needs the membership lock.
    No,
    /// The node was evicted.
    Gone,
}

/// The usual heartbeat: renews the lease without the membership lock and checks
/// whether anything needs that lock.
async fn renew_quietly(session: &mut Session, sql: &Sql, request: &Heartbeat) -> Result<Quiet, Failure> {
    let query = session.query(&sql.heartbeat).bind(request.node.to_string()).bind(request.now.map(Time));
    let query = query.bind(micros(request.lease)).bind(request.groups_seen);
    let row = query.fetch_one(&mut session.connection).await?;
    let now = row.try_get::<Time, _>(0)?.0;
    if !row.try_get::<bool, _>(1)? {
        return Ok(Quiet::Gone);
    }
    let view = View::from_row(&row, 2)?;
    // The statement's snapshot still has this node's old expiry, so its own row is left out.
    let expired = view.nodes.iter().any(|node| node.id != request.node && node.expires_at <= now);
    let Share { take, give } = view.share(request.node);
    if expired || !take.is_empty() {
        return Ok(Quiet::No);
    }
    let groups = match row.try_get::<Option<i64>, _>(10)? {
        Some(_) => Some(group_states_of(session, sql).await?),
        None => None,
    };
    Ok(Quiet::Yes(Box::new(view.standing(request.node, give, groups, now))))
}

/// A heartbeat that evicts, takes, trusts, releases or sweeps. It runs under the membership lock, which
/// excludes every other such call.
async fn rearrange(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Standing>, Failure> {
    let node = request.node.to_string();
    let mut tx = session.begin().await?;
    let now = lock(&mut tx, sql, request.now).await?;
    // A node whose lease has expired, but that no one has evicted yet, keeps its row and its slots.
    let renew = tx.query(&sql.node_renew).bind(&node).bind(Time(now)).bind(micros(request.lease));
    if renew.execute(&mut *tx.tx).await?.rows_affected() == 0 {
        return Ok(None);
    }
    evict(&mut tx, sql, Some(request.node), now).await?;
    if let Some(trust) = sql.slots_trust.as_ref().filter(|_| !request.trusted.is_empty()) {
        let slots: Vec<i16> = request.trusted.iter().map(|slot| slot.0).collect();
        tx.query(trust).bind(slots).bind(&node).execute(&mut *tx.tx).await?;
    }
    if !request.release.is_empty() {
        release(&mut tx, sql, request).await?;
    }
    if let Some(sweep) = sql.slots_sweep.as_ref().filter(|_| request.sweep) {
        tx.query(sweep).execute(&mut *tx.tx).await?;
    }
    let mut view = View::read(&mut tx, sql).await?;
    let Share { take, give } = view.share(request.node);
    // Slots that this heartbeat has just released must not be taken back by it.
    let take = take.into_iter().filter(|slot| !request.release.contains(slot)).collect();
    view.take(&mut tx, sql, request.node, take).await?;
    let states = group_states(&mut tx, sql).await?;
    let groups = (states.epoch != request.groups_seen).then_some(states);
    tx.commit().await?;
    Ok(Some(view.standing(request.node, give, groups, now)))
}

/// Waits for the membership lock, then reads the time: a time read before the wait would be stale.
async fn lock(tx: &mut Tx<'_>, sql: &Sql, given: Option<Timestamp>) -> Result<Timestamp, Failure> {
    tx.query(&sql.membership_lock).execute(&mut *tx.tx).await?;
    match given {
        Some(now) => Ok(now),
        None => Ok(tx.query(&sql.clock).fetch_one(&mut *tx.tx).await?.try_get::<Time, _>(0)?.0),
    }
}

/// Deletes every expired node except the one that is renewing. The delete waits for the node's settles in
/// flight, which hold a share lock on its row; later settles find the row gone.
async fn evict(tx: &mut Tx<'_>, sql: &Sql, renewing: Option<NodeId>, now: Timestamp) -> Result<(), Failure> {
    let renewing = renewing.map(|node| node.to_string()).unwrap_or_default();
    tx.query(&sql.node_evict).bind(Time(now)).bind(renewing).execute(&mut *tx.tx).await?;
    Ok(())
}

async fn release(tx: &mut Tx<'_>, sql: &Sql, request: &Heartbeat) -> Result<(), Failure> {
    // A node never releases its own lane.
    let own = View::read(tx, sql).await?.lane_of(request.node).slot();
    let slots: Vec<i16> = request.release.iter().filter(|slot| **slot != own).map(|slot| slot.0).collect();
    tx.query(&sql.slots_release).bind(slots).bind(request.node.to_string()).execute(&mut *tx.tx).await?;
    Ok(())
}

async fn group_states(tx: &mut Tx<'_>, sql: &Sql) -> Result<GroupStates, Failure> {
    let epoch = tx.query(&sql.epoch).fetch_one(&mut *tx.tx).await?.try_get(0)?;
    let rows = page_of(tx.query(&sql.groups), &HeldGroups::first()).fetch_all(&mut *tx.tx).await?;
    Ok(GroupStates { epoch, held: held_groups(&rows)? })
}

/// Reads the epoch first: if groups change in between, the next heartbeat finds a newer
/// epoch and reads them again.
async fn group_states_of(session: &mut Session, sql: &Sql) -> Result<GroupStates, Failure> {
    let epoch = session.query(&sql.epoch).fetch_one(&mut session.connection).await?.try_get(0)?;
    let first = page_of(session.query(&sql.groups), &HeldGroups::first());
    let rows = first.fetch_all(&mut session.connection).await?;
    Ok(GroupStates { epoch, held: held_groups(&rows)? })
}

/// The time until the next delayed row is due; zero if one is due now.
pub(crate) async fn next_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, Failure> {
    let row = session.query(&sql.next_due).fetch_optional(&mut session.connection).await?;
    let due = row.map(|row| row.try_get::<Time, _>(0)).transpose()?;
    Ok(due.map(|due| until(now, due.0)))
}

/// The time until the first delayed row that is not due yet.
pub(crate) async fn later_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, Failure> {
    let query = session.query(&sql.later_due).bind(Time(now));
    let row = query.fetch_optional(&mut session.connection).await?;
    let due = row.map(|row| row.try_get::<Time, _>(0)).transpose()?;
    Ok(due.map(|due| until(now, due.0)))
}

/// Parses a node's id from a column.
pub(crate) fn node_id(text: &str) -> Result<NodeId, Failure> {
    NodeId::parse(text).map_err(|error| {
        Failure::Refused(ErrorKind::Unexpected, format!("a node's id can't be read: {error}"))
    })
}

/// A row of the table of nodes.
struct Node {
    id: NodeId,
    lane: Lane,
    expires_at: Timestamp,
}

/// A row of the table of slots.
struct Held {
    state: SlotState,
    suspect: bool,
    quarantine: Option<Quarantine>,
}

/// A snapshot of nodes and slots, and the suspect slots that this call has taken over.
struct View {
    nodes: Vec<Node>,
    slots: Vec<Held>,
    taken_suspect: Vec<Slot>,
}

impl View {
    async fn read(tx: &mut Tx<'_>, sql: &Sql) -> Result<Self, Failure> {
        let row = tx.query(&sql.members).fetch_one(&mut *tx.tx).await?;
        Self::from_row(&row, 0)
    }

    /// Decodes the arrays that begin at `column`: ids, lanes and expiries of nodes; then numbers, holders,
    /// suspect flags, eviction counts and quarantine bounds of slots.
    fn from_row(row: &PgRow, column: usize) -> Result<Self, Failure> {
        let ids: Vec<String> = row.try_get(column)?;
        let lanes: Vec<i16> = row.try_get(column + 1)?;
        let expiries: Vec<Time> = row.try_get(column + 2)?;
        let slots: Vec<i16> = row.try_get(column + 3)?;
        let holders: Vec<Option<String>> = row.try_get(column + 4)?;
        let suspicions: Vec<bool> = row.try_get(column + 5)?;
        let evictions: Vec<i32> = row.try_get(column + 6)?;
        let bounds: Vec<i64> = row.try_get(column + 7)?;
        let nodes = ids.into_iter().zip(lanes).zip(expiries);
        let nodes = nodes.map(|((id, lane), expires)| {
            Ok::<_, Failure>(Node { id: node_id(&id)?, lane: Lane(lane), expires_at: expires.0 })
        });
        let quarantines = evictions.into_iter().zip(bounds).map(|(evictions, bound)| {
            let quarantine = Quarantine { evictions: evictions.unsigned_abs(), upto: Seq(bound) };
            (evictions > 0).then_some(quarantine)
        });
        let slots = slots.into_iter().zip(holders).zip(suspicions).zip(quarantines);
        let slots = slots.map(|(((slot, holder), suspect), quarantine)| {
            let holder = holder.as_deref().map(node_id).transpose()?;
            Ok::<_, Failure>(Held { state: SlotState { slot: Slot(slot), holder }, suspect, quarantine })
        });
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            slots: slots.collect::<Result<_, _>>()?,
            taken_suspect: Vec::new(),
        })
    }

    fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|held| held.state).collect()
    }

    fn lane_of(&self, node: NodeId) -> Lane {
        self.nodes.iter().find(|one| one.id == node).map_or(Lane::FIRST, |one| one.lane)
    }

    /// The free slots that the node should take, and the slots that it should give up.
    fn share(&self, node: NodeId) -> Share {
        share(node, self.nodes.iter().map(|one| (one.id, one.lane)), &self.states())
    }

    async fn take(
        &mut self,
        tx: &mut Tx<'_>,
        sql: &Sql,
        node: NodeId,
        slots: Vec<Slot>,
    ) -> Result<(), Failure> {
        if slots.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i16> = slots.iter().map(|slot| slot.0).collect();
        tx.query(&sql.slots_take).bind(numbers).bind(node.to_string()).execute(&mut *tx.tx).await?;
        for held in self.slots.iter_mut().filter(|held| slots.contains(&held.state.slot)) {
            held.state.holder = Some(node);
            // Taking a slot clears its suspect flag in the table, so this call must report it.
            if std::mem::take(&mut held.suspect) {
                self.taken_suspect.push(held.state.slot);
            }
        }
        Ok(())
    }

    fn standing(
        self,
        node: NodeId,
        give: Vec<Slot>,
        groups: Option<GroupStates>,
        now: Timestamp,
    ) -> Standing {
        let mine = self.slots.iter().filter(|held| held.state.holder == Some(node));
        let held = mine.map(|held| {
            let Held { state: SlotState { slot, .. }, quarantine, .. } = *held;
            HeldSlot { slot, suspect: self.taken_suspect.contains(&slot), quarantine }
        });
        let membership = Membership {
            lane: self.lane_of(node),
            held: held.collect(),
            give,
            nodes: self.nodes.len(),
            groups,
            ready: false,
            next_due: None,
            oldest: None,
            now,
        };
        Standing { membership }
    }
}
