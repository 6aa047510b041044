//! Membership of nodes: registering, heartbeats, evicting, leaving, and the slots that nodes hold.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot, SlotSet};
use pillarbox::port::{
    ErrorKind, GroupStates, Heartbeat, HeldGroups, HeldSlot, Membership, Quarantine, Register,
};
use pillarbox::rules::{Share, SlotState, free_lane, share};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, number};
use crate::error::Failure;
use crate::fetch::{clock, slots_sql};
use crate::groups::groups as held_groups;
use crate::row::{number_of, text_of, time_of};
use crate::sql::{Sql, fill, list};
use crate::time::{Time, literal, micros, now_sql, until};

pub(crate) async fn join(session: &mut Session, sql: &Sql, request: &Register) -> Result<Standing, Failure> {
    session.begin().await?;
    let now = lock(session, sql, request.now).await?;
    let mut view = View::read(session, sql).await?;
    if view.evict(session, sql, None, now).await? {
        view = View::read(session, sql).await?;
    }
    if view.nodes.iter().any(|node| node.id == request.node) {
        let detail = format!("node {} is there already", request.node);
        return Err(Failure::Refused(ErrorKind::Conflict, detail));
    }
    let lane = free_lane(request.part, &view.states());
    let query = session.query(fill(&sql.node_join, &[("{now}", literal(now))]));
    let query = query.bind(request.node.to_string()).bind(&request.label).bind(lane.0);
    query.bind(micros(request.lease)).execute(&mut session.connection).await?;
    view.take(session, sql, request.node, vec![lane.slot()]).await?;
    // Shares depend on the order in which nodes registered, which only the table knows.
    let taken_suspect = view.taken_suspect;
    let mut view = View { taken_suspect, ..View::read(session, sql).await? };
    let Share { take, give } = view.share(request.node);
    view.take(session, sql, request.node, take).await?;
    let groups = Some(group_states(session, sql).await?);
    session.commit().await?;
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
    (node, state): &(NodeId, String),
) -> Result<(), Failure> {
    let query = session.query(&*sql.node_publish).bind(state).bind(node.to_string());
    query.execute(&mut session.connection).await?;
    Ok(())
}

pub(crate) async fn leave(session: &mut Session, sql: &Sql, node: NodeId) -> Result<(), Failure> {
    session.begin().await?;
    lock(session, sql, None).await?;
    let gone =
        session.query(&*sql.node_leave).bind(node.to_string()).execute(&mut session.connection).await?;
    if gone.rows_affected() > 0 {
        session.query(&*sql.slots_free).bind(node.to_string()).execute(&mut session.connection).await?;
    }
    session.commit().await
}

/// Frees the slots of an evicted node and quarantines the rows that are pending there. Items have no sequence
/// numbers, so there is no quarantine for them.
async fn evict(session: &mut Session, sql: &Sql, node: NodeId) -> Result<(), Failure> {
    let upto = session.query(&*sql.pending_upto).fetch_one(&mut session.connection).await?;
    let query = session.query(&*sql.slots_evict).bind(number(&upto, 0)?).bind(node.to_string());
    query.execute(&mut session.connection).await?;
    Ok(())
}

/// A node's membership without its pending rows.
pub(crate) struct Standing {
    membership: Membership,
}

impl Standing {
    /// The slots in which to look for pending rows.
    pub(crate) fn slots(&self) -> Vec<i16> {
        self.membership.held.iter().map(|held| held.slot.0).collect()
    }

    /// Adds the pending rows. `None` means that the query was too slow or failed: the
    /// node is then told to read.
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

/// The pending rows of a node's slots.
pub(crate) struct Waiting {
    ready: bool,
    oldest: Option<Timestamp>,
    next_due: Option<Timestamp>,
}

/// Looks for pending rows above a sequence number. This is not part of the heartbeat, so a slow query cannot
/// cost the node its lease.
pub(crate) async fn waiting(
    session: &mut Session,
    sql: &Sql,
    slots: Vec<i16>,
    after: Seq,
) -> Result<Waiting, Failure> {
    let slots = slots_sql(&SlotSet::new(slots.into_iter().map(Slot)));
    let query = session.query(fill(&sql.waiting, &[("{slots}", slots)])).bind(after.0);
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(Waiting { ready: number(&row, 0)? > 0, oldest: time_of(&row, 1), next_due: time_of(&row, 2) })
}

/// Whether a renewal was all that a heartbeat needed. `Gone` means that the node was evicted.
enum Quiet {
    Yes(Box<Standing>),
    No,
    Gone,
}

/// The usual heartbeat: renews the lease without the membership lock and checks whether
/// anything needs that lock.
async fn renew_quietly(session: &mut Session, sql: &Sql, request: &Heartbeat) -> Result<Quiet, Failure> {
    if !renew(session, sql, request, request.now).await? {
        return Ok(Quiet::Gone);
    }
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let view = View::read(session, sql).await?;
    // This view was read without a lock. It only decides whether to take the lock,
    // and `rearrange` reads again.
    let expired = view.nodes.iter().any(|node| node.id != request.node && node.expires_at <= now);
    let Share { take, give } = view.share(request.node);
    if expired || !take.is_empty() {
        return Ok(Quiet::No);
    }
    // The epoch is read before the groups: if they change in between, the next heartbeat sees another epoch
    // and reads them again.
    let groups = match epoch(session, sql).await? {
        epoch if epoch == request.groups_seen => None,
        epoch => Some(GroupStates { epoch, held: held_groups(session, sql, &HeldGroups::first()).await? }),
    };
    Ok(Quiet::Yes(Box::new(view.standing(request.node, give, groups, now))))
}

async fn renew(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
    now: Option<Timestamp>,
) -> Result<bool, Failure> {
    let query = session.query(fill(&sql.node_renew, &[("{now}", now_sql(now))]));
    let query = query.bind(micros(request.lease)).bind(request.node.to_string());
    Ok(query.execute(&mut session.connection).await?.rows_affected() > 0)
}

/// A heartbeat under the membership lock: it evicts nodes, and takes, trusts, releases and sweeps slots.
async fn rearrange(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Standing>, Failure> {
    session.begin().await?;
    let now = lock(session, sql, request.now).await?;
    if !renew(session, sql, request, Some(now)).await? {
        return Ok(None);
    }
    let view = View::read(session, sql).await?;
    view.evict(session, sql, Some(request.node), now).await?;
    if !request.trusted.is_empty() {
        let slots = list(request.trusted.iter().map(|slot| slot.0));
        let query = session.once(fill(&sql.slots_trust, &[("{seqs}", slots)]));
        query.bind(request.node.to_string()).execute(&mut session.connection).await?;
    }
    if !request.release.is_empty() {
        release(session, sql, request, view.lane_of(request.node).slot()).await?;
    }
    if request.sweep {
        session.query(&*sql.slots_sweep).execute(&mut session.connection).await?;
    }
    let mut view = View::read(session, sql).await?;
    let Share { take, give } = view.share(request.node);
    // A slot that this heartbeat releases must be left to another node.
    let take = take.into_iter().filter(|slot| !request.release.contains(slot)).collect();
    view.take(session, sql, request.node, take).await?;
    let states = group_states(session, sql).await?;
    let groups = (states.epoch != request.groups_seen).then_some(states);
    session.commit().await?;
    Ok(Some(view.standing(request.node, give, groups, now)))
}

/// Waits for the membership lock and returns the time. The clock is read after the wait, so no lease is
/// judged by an old time.
async fn lock(session: &mut Session, sql: &Sql, given: Option<Timestamp>) -> Result<Timestamp, Failure> {
    session.query(&*sql.membership_lock).fetch_all(&mut session.connection).await?;
    match given {
        Some(now) => Ok(now),
        None => clock(session, sql).await,
    }
}

async fn release(session: &mut Session, sql: &Sql, request: &Heartbeat, own: Slot) -> Result<(), Failure> {
    let slots: Vec<i16> = request.release.iter().filter(|slot| **slot != own).map(|slot| slot.0).collect();
    for statement in [&sql.slots_drop, &sql.slots_release] {
        let query = session.once(fill(statement, &[("{seqs}", list(&slots))]));
        query.bind(request.node.to_string()).execute(&mut session.connection).await?;
    }
    Ok(())
}

async fn epoch(session: &mut Session, sql: &Sql) -> Result<i64, Failure> {
    number(&session.query(&*sql.epoch).fetch_one(&mut session.connection).await?, 0)
}

async fn group_states(session: &mut Session, sql: &Sql) -> Result<GroupStates, Failure> {
    let epoch = epoch(session, sql).await?;
    Ok(GroupStates { epoch, held: held_groups(session, sql, &HeldGroups::first()).await? })
}

/// The time until the next delayed row is due; zero if one is due already.
pub(crate) async fn next_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, Failure> {
    let row = session.query(&*sql.next_due).fetch_optional(&mut session.connection).await?;
    Ok(row.and_then(|row| time_of(&row, 0)).map(|due| until(now, due)))
}

/// The time until the next delayed row that is not due yet.
pub(crate) async fn later_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, Failure> {
    let query = session.once(fill(&sql.later_due, &[("{now}", literal(now))]));
    let row = query.fetch_optional(&mut session.connection).await?;
    Ok(row.and_then(|row| time_of(&row, 0)).map(|due| until(now, due)))
}

/// Parses a node id from a column.
pub(crate) fn node_id(text: &str) -> Result<NodeId, Failure> {
    NodeId::parse(text).map_err(|error| {
        Failure::Refused(ErrorKind::Unexpected, format!("a node's id can't be read: {error}"))
    })
}

/// A row of the node table.
struct Node {
    id: NodeId,
    lane: Lane,
    expires_at: Timestamp,
}

/// A row of the slot table.
struct Held {
    state: SlotState,
    suspect: bool,
    quarantine: Option<Quarantine>,
}

impl Held {
    fn read(row: &MySqlRow) -> Result<Self, Failure> {
        let holder = text_of(row, 1).map(node_id).transpose()?;
        let quarantine =
            Quarantine { evictions: u32::try_from(number(row, 3)?).unwrap_or(0), upto: Seq(number(row, 4)?) };
        Ok(Self {
            state: SlotState { slot: Slot(small(row, 0)), holder },
            suspect: number(row, 2)? != 0,
            quarantine: Some(quarantine).filter(|quarantine| quarantine.evictions > 0),
        })
    }
}

/// The nodes, the slots with their holders, and the suspect slots that this call has taken.
struct View {
    nodes: Vec<Node>,
    slots: Vec<Held>,
    taken_suspect: Vec<Slot>,
}

impl View {
    async fn read(session: &mut Session, sql: &Sql) -> Result<Self, Failure> {
        let node = |row: &MySqlRow| {
            Ok::<_, Failure>(Node {
                id: node_id(text_of(row, 0).unwrap_or_default())?,
                lane: Lane(small(row, 2)),
                expires_at: time_of(row, 4).unwrap_or_default(),
            })
        };
        let nodes = session.query(&*sql.nodes).fetch_all(&mut session.connection).await?;
        let slots = session.query(&*sql.slots).fetch_all(&mut session.connection).await?;
        Ok(Self {
            nodes: nodes.iter().map(node).collect::<Result<_, _>>()?,
            slots: slots.iter().map(Held::read).collect::<Result<_, _>>()?,
            taken_suspect: Vec::new(),
        })
    }

    /// Evicts every expired node except `renewing`. Returns whether it evicted one.
    async fn evict(
        &self,
        session: &mut Session,
        sql: &Sql,
        renewing: Option<NodeId>,
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let mut evicted = false;
        let expired = self.nodes.iter().filter(|node| node.expires_at <= now && Some(node.id) != renewing);
        for node in expired {
            // The node may have renewed meanwhile, without the membership lock: the statement checks its
            // expiry again. It also waits for settles of that node, which hold a share lock on its row.
            let query = session.query(&*sql.node_evict).bind(node.id.to_string()).bind(Time(now));
            if query.execute(&mut session.connection).await?.rows_affected() > 0 {
                evict(session, sql, node.id).await?;
                evicted = true;
            }
        }
        Ok(evicted)
    }

    fn states(&self) -> Vec<SlotState> {
        self.slots.iter().map(|held| held.state).collect()
    }

    fn lane_of(&self, node: NodeId) -> Lane {
        self.nodes.iter().find(|one| one.id == node).map_or(Lane::FIRST, |one| one.lane)
    }

    /// The free slots that the node should take and the held slots that it should give.
    fn share(&self, node: NodeId) -> Share {
        share(node, self.nodes.iter().map(|one| (one.id, one.lane)), &self.states())
    }

    async fn take(
        &mut self,
        session: &mut Session,
        sql: &Sql,
        node: NodeId,
        slots: Vec<Slot>,
    ) -> Result<(), Failure> {
        if slots.is_empty() {
            return Ok(());
        }
        let rows: Vec<String> = slots.iter().map(|slot| format!("({}, '{node}')", slot.0)).collect();
        let query = session.once(fill(&sql.slots_take, &[("{rows}", rows.join(", "))]));
        query.execute(&mut session.connection).await?;
        for held in self.slots.iter_mut().filter(|held| slots.contains(&held.state.slot)) {
            held.state.holder = Some(node);
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

fn small(row: &MySqlRow, column: usize) -> i16 {
    number_of(row, column).and_then(|number| i16::try_from(number).ok()).unwrap_or_default()
}
