//! Membership of nodes: registering, heartbeats, evicting, leaving, and the slots that nodes hold.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot, SlotSet};
use pillarbox::port::{ErrorKind, GroupStates, Heartbeat, HeldGroups, Membership, PendingRows, Register};
use pillarbox::rules::{Member, Members, SlotRecord};
use sqlx::mysql::MySqlRow;

use crate::connection::{Session, number};
use crate::error::DriverError;
use crate::fetch::{clock, slots_sql};
use crate::groups::groups as held_groups;
use crate::row::{number_of, text_of, time_of};
use crate::sql::{Sql, fill, list};
use crate::time::{Time, literal, micros, now_sql, until};

pub(crate) async fn register(
    session: &mut Session,
    sql: &Sql,
    request: &Register,
) -> Result<Membership, DriverError> {
    session.begin().await?;
    let now = lock(session, sql, request.now).await?;
    let mut members = members(session, sql).await?;
    if evict_expired(session, sql, &members, None, now).await? {
        members = self::members(session, sql).await?;
    }
    if members.has(request.node) {
        let detail = format!("node {} already exists", request.node);
        return Err(DriverError::Refused(ErrorKind::Conflict, detail));
    }
    let lane = members.free_lane(request.reads);
    let query = session.query(fill(&sql.node_register, &[("{now}", literal(now))]));
    let query = query.bind(request.node.to_string()).bind(&request.label).bind(lane.0);
    query.bind(micros(request.lease)).execute(&mut session.connection).await?;
    take(session, sql, &mut members, request.node, &[lane.slot()]).await?;
    // Shares depend on the order in which nodes registered, which only the table knows.
    let mut members = members.reread(self::members(session, sql).await?);
    let share = members.share(request.node, &[]);
    take(session, sql, &mut members, request.node, &share.take).await?;
    let groups = Some(group_states(session, sql).await?);
    session.commit().await?;
    Ok(members.membership(request.node, share.give, groups, now))
}

pub(crate) async fn heartbeat(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Membership>, DriverError> {
    let is_plain = request.trusted.is_empty() && request.release.is_empty() && !request.sweep;
    match if is_plain { renew_unchanged(session, sql, request).await? } else { Renewal::Rearrange } {
        Renewal::Gone => Ok(None),
        Renewal::Unchanged(membership) => Ok(Some(*membership)),
        Renewal::Rearrange => rearrange(session, sql, request).await,
    }
}

pub(crate) async fn publish(
    session: &mut Session,
    sql: &Sql,
    (node, state): &(NodeId, String),
) -> Result<(), DriverError> {
    let query = session.query(&*sql.node_publish).bind(state).bind(node.to_string());
    query.execute(&mut session.connection).await?;
    Ok(())
}

pub(crate) async fn leave(session: &mut Session, sql: &Sql, node: NodeId) -> Result<(), DriverError> {
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
async fn evict(session: &mut Session, sql: &Sql, node: NodeId) -> Result<(), DriverError> {
    let upto = session.query(&*sql.pending_upto).fetch_one(&mut session.connection).await?;
    let query = session.query(&*sql.slots_evict).bind(number(&upto, 0)?).bind(node.to_string());
    query.execute(&mut session.connection).await?;
    Ok(())
}

/// Looks for pending rows above a sequence number. This is not part of the heartbeat, so a slow query cannot
/// cost the node its lease.
pub(crate) async fn waiting(
    session: &mut Session,
    sql: &Sql,
    (slots, after): &(SlotSet, Seq),
) -> Result<PendingRows, DriverError> {
    let query = session.query(fill(&sql.waiting, &[("{slots}", slots_sql(slots))])).bind(after.0);
    let row = query.fetch_one(&mut session.connection).await?;
    Ok(PendingRows { ready: number(&row, 0)? > 0, oldest: time_of(&row, 1), next_due: time_of(&row, 2) })
}

/// What a heartbeat needs beyond the renewal of its lease. `Gone` means that the node was evicted.
enum Renewal {
    Unchanged(Box<Membership>),
    Rearrange,
    Gone,
}

/// The usual heartbeat: renews the lease without the membership lock and checks whether
/// anything needs that lock.
async fn renew_unchanged(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Renewal, DriverError> {
    if !renew(session, sql, request, request.now).await? {
        return Ok(Renewal::Gone);
    }
    let now = match request.now {
        Some(now) => now,
        None => clock(session, sql).await?,
    };
    let members = members(session, sql).await?;
    // This snapshot was read without a lock. It only decides whether to take the lock,
    // and `rearrange` reads again.
    let share = members.share(request.node, &[]);
    if !members.expired(now, Some(request.node)).is_empty() || !share.take.is_empty() {
        return Ok(Renewal::Rearrange);
    }
    // The epoch is read before the groups: if they change in between, the next heartbeat sees another epoch
    // and reads them again.
    let groups = match epoch(session, sql).await? {
        epoch if epoch == request.groups_seen => None,
        epoch => Some(GroupStates { epoch, held: held_groups(session, sql, &HeldGroups::first()).await? }),
    };
    Ok(Renewal::Unchanged(Box::new(members.membership(request.node, share.give, groups, now))))
}

async fn renew(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
    now: Option<Timestamp>,
) -> Result<bool, DriverError> {
    let query = session.query(fill(&sql.node_renew, &[("{now}", now_sql(now))]));
    let query = query.bind(micros(request.lease)).bind(request.node.to_string());
    Ok(query.execute(&mut session.connection).await?.rows_affected() > 0)
}

/// A heartbeat under the membership lock: it evicts nodes, and takes, trusts, releases and sweeps slots.
async fn rearrange(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Membership>, DriverError> {
    session.begin().await?;
    let now = lock(session, sql, request.now).await?;
    if !renew(session, sql, request, Some(now)).await? {
        return Ok(None);
    }
    let before = members(session, sql).await?;
    evict_expired(session, sql, &before, Some(request.node), now).await?;
    if !request.trusted.is_empty() {
        let slots = list(request.trusted.iter().map(|slot| slot.0));
        let query = session.once(fill(&sql.slots_trust, &[("{seqs}", slots)]));
        query.bind(request.node.to_string()).execute(&mut session.connection).await?;
    }
    if !request.release.is_empty() {
        release(session, sql, request, before.lane_of(request.node).slot()).await?;
    }
    if request.sweep {
        session.query(&*sql.slots_sweep).execute(&mut session.connection).await?;
    }
    let mut members = members(session, sql).await?;
    let share = members.share(request.node, &request.release);
    take(session, sql, &mut members, request.node, &share.take).await?;
    let states = group_states(session, sql).await?;
    let groups = (states.epoch != request.groups_seen).then_some(states);
    session.commit().await?;
    Ok(Some(members.membership(request.node, share.give, groups, now)))
}

/// Waits for the membership lock and returns the time. The clock is read after the wait, so no lease is
/// judged by an old time.
async fn lock(session: &mut Session, sql: &Sql, given: Option<Timestamp>) -> Result<Timestamp, DriverError> {
    session.query(&*sql.membership_lock).fetch_all(&mut session.connection).await?;
    match given {
        Some(now) => Ok(now),
        None => clock(session, sql).await,
    }
}

async fn release(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
    own: Slot,
) -> Result<(), DriverError> {
    let slots: Vec<i16> = request.release.iter().filter(|slot| **slot != own).map(|slot| slot.0).collect();
    for statement in [&sql.slots_drop, &sql.slots_release] {
        let query = session.once(fill(statement, &[("{seqs}", list(&slots))]));
        query.bind(request.node.to_string()).execute(&mut session.connection).await?;
    }
    Ok(())
}

async fn epoch(session: &mut Session, sql: &Sql) -> Result<i64, DriverError> {
    number(&session.query(&*sql.epoch).fetch_one(&mut session.connection).await?, 0)
}

async fn group_states(session: &mut Session, sql: &Sql) -> Result<GroupStates, DriverError> {
    let epoch = epoch(session, sql).await?;
    Ok(GroupStates { epoch, held: held_groups(session, sql, &HeldGroups::first()).await? })
}

/// The time until the next delayed row is due; zero if one is due already.
pub(crate) async fn next_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, DriverError> {
    let row = session.query(&*sql.next_due).fetch_optional(&mut session.connection).await?;
    Ok(row.and_then(|row| time_of(&row, 0)).map(|due| until(now, due)))
}

/// The time until the next delayed row that is not due yet.
pub(crate) async fn later_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, DriverError> {
    let query = session.once(fill(&sql.later_due, &[("{now}", literal(now))]));
    let row = query.fetch_optional(&mut session.connection).await?;
    Ok(row.and_then(|row| time_of(&row, 0)).map(|due| until(now, due)))
}

/// Parses a node id from a column.
pub(crate) fn node_id(text: &str) -> Result<NodeId, DriverError> {
    NodeId::parse(text).map_err(|error| {
        DriverError::Refused(ErrorKind::Unexpected, format!("a node's id can't be read: {error}"))
    })
}

/// The nodes, and the slots with their holders.
pub(crate) async fn members(session: &mut Session, sql: &Sql) -> Result<Members, DriverError> {
    let node = |row: &MySqlRow| {
        Ok::<_, DriverError>(Member {
            id: node_id(text_of(row, 0).unwrap_or_default())?,
            lane: Lane(small(row, 2)),
            expires_at: time_of(row, 4).unwrap_or_default(),
            details: (),
        })
    };
    let slot = |row: &MySqlRow| {
        let holder = text_of(row, 1).map(node_id).transpose()?;
        let (suspect, evictions) = (number(row, 2)? != 0, u32::try_from(number(row, 3)?).unwrap_or_default());
        Ok::<_, DriverError>(SlotRecord::new(
            Slot(small(row, 0)),
            holder,
            suspect,
            evictions,
            Seq(number(row, 4)?),
        ))
    };
    let nodes = session.query(&*sql.nodes).fetch_all(&mut session.connection).await?;
    let slots = session.query(&*sql.slots).fetch_all(&mut session.connection).await?;
    let nodes = nodes.iter().map(node).collect::<Result<_, _>>()?;
    Ok(Members::new(nodes, slots.iter().map(slot).collect::<Result<_, _>>()?))
}

/// Evicts expired nodes except `renewing`. Returns whether it evicted one.
async fn evict_expired(
    session: &mut Session,
    sql: &Sql,
    members: &Members,
    renewing: Option<NodeId>,
    now: Timestamp,
) -> Result<bool, DriverError> {
    let mut evicted = false;
    for node in members.expired(now, renewing) {
        // The node may have renewed meanwhile, without the membership lock: the statement checks its
        // expiry again. It also waits for settles of that node, which hold a share lock on its row.
        let query = session.query(&*sql.node_evict).bind(node.to_string()).bind(Time(now));
        if query.execute(&mut session.connection).await?.rows_affected() > 0 {
            evict(session, sql, node).await?;
            evicted = true;
        }
    }
    Ok(evicted)
}

/// Takes slots, in the table and in the snapshot.
async fn take(
    session: &mut Session,
    sql: &Sql,
    members: &mut Members,
    node: NodeId,
    slots: &[Slot],
) -> Result<(), DriverError> {
    if slots.is_empty() {
        return Ok(());
    }
    let rows: Vec<String> = slots.iter().map(|slot| format!("({}, '{node}')", slot.0)).collect();
    let query = session.once(fill(&sql.slots_take, &[("{rows}", rows.join(", "))]));
    query.execute(&mut session.connection).await?;
    members.take(node, slots);
    Ok(())
}

fn small(row: &MySqlRow, column: usize) -> i16 {
    number_of(row, column).and_then(|number| i16::try_from(number).ok()).unwrap_or_default()
}
