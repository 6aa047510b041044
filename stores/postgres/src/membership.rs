//! Membership: registers, renews and evicts nodes, and takes and releases slots.

use std::time::Duration;

use jiff::Timestamp;
use pillarbox::model::{Lane, NodeId, Seq, Slot, SlotSet};
use pillarbox::port::{ErrorKind, GroupStates, Heartbeat, HeldGroups, Membership, PendingRows, Register};
use pillarbox::rules::{Member, Members, SlotRecord};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::connection::{Session, Tx};
use crate::error::DriverError;
use crate::groups::{held_groups, page_of};
use crate::sql::Sql;
use crate::time::{Time, micros, until};
use crate::wakeups::LEFT;

pub(crate) async fn register(
    session: &mut Session,
    sql: &Sql,
    request: &Register,
) -> Result<Membership, DriverError> {
    let mut tx = session.begin().await?;
    let now = lock(&mut tx, sql, request.now).await?;
    // Evict first, so that the slots of expired nodes are free when the shares are worked out.
    evict(&mut tx, sql, None, now).await?;
    let mut members = members(&mut tx, sql).await?;
    if members.has(request.node) {
        let detail = format!("node {} already exists", request.node);
        return Err(DriverError::Refused(ErrorKind::Conflict, detail));
    }
    let lane = members.free_lane(request.reads);
    let query = tx.query(&sql.node_register).bind(request.node.to_string()).bind(&request.label).bind(lane.0);
    let query = query.bind(Time(now)).bind(Time(now)).bind(micros(request.lease));
    query.execute(&mut *tx.tx).await?;
    take(&mut tx, sql, &mut members, request.node, &[lane.slot()]).await?;
    // Read back with the new row: shares depend on the order in which nodes registered,
    // which only the table knows.
    let mut members = members.reread(self::members(&mut tx, sql).await?);
    let share = members.share(request.node, &[]);
    take(&mut tx, sql, &mut members, request.node, &share.take).await?;
    let groups = Some(group_states(&mut tx, sql).await?);
    tx.commit().await?;
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
    node: NodeId,
    state: &str,
) -> Result<(), DriverError> {
    let query = session.query(&sql.node_publish).bind(node.to_string()).bind(state);
    query.execute(&mut session.connection).await?;
    Ok(())
}

/// Removes a node, and tells the nodes that listen on this channel.
pub(crate) async fn leave(
    session: &mut Session,
    sql: &Sql,
    node: NodeId,
    channel: Option<&str>,
) -> Result<(), DriverError> {
    let mut tx = session.begin().await?;
    lock(&mut tx, sql, None).await?;
    tx.query(&sql.node_leave).bind(node.to_string()).execute(&mut *tx.tx).await?;
    if let Some(channel) = channel {
        tx.query(&sql.node_left).bind(channel).bind(LEFT).execute(&mut *tx.tx).await?;
    }
    tx.commit().await
}

/// Looks for rows above a sequence number. This is not part of the heartbeat's own call, so a slow query
/// cannot cost the node its lease.
pub(crate) async fn waiting(
    session: &mut Session,
    sql: &Sql,
    (slots, after): &(SlotSet, Seq),
) -> Result<PendingRows, DriverError> {
    let slots: Vec<i16> = slots.iter().map(|slot| slot.0).collect();
    let query = session.query(&sql.waiting).bind(after.0);
    let query = query.bind(slots.iter().min().copied()).bind(slots.iter().max().copied()).bind(slots);
    let row = query.fetch_one(&mut session.connection).await?;
    let time = |column| row.try_get::<Option<Time>, _>(column).map(|time| time.map(|time| time.0));
    Ok(PendingRows { ready: row.try_get(0)?, oldest: time(1)?, next_due: time(2)? })
}

/// What a heartbeat needs beyond the renewal of its lease.
enum Renewal {
    Unchanged(Box<Membership>),
    /// There is work that needs the membership lock.
    Rearrange,
    /// The node was evicted.
    Gone,
}

/// The usual heartbeat: renews the lease without the membership lock and checks
/// whether anything needs that lock.
async fn renew_unchanged(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Renewal, DriverError> {
    let query = session.query(&sql.heartbeat).bind(request.node.to_string()).bind(request.now.map(Time));
    let query = query.bind(micros(request.lease)).bind(request.groups_seen);
    let row = query.fetch_one(&mut session.connection).await?;
    let now = row.try_get::<Time, _>(0)?.0;
    if !row.try_get::<bool, _>(1)? {
        return Ok(Renewal::Gone);
    }
    let members = members_of(&row, 2)?;
    // The statement's snapshot still has this node's old expiry, so its own row is left out.
    let share = members.share(request.node, &[]);
    if !members.expired(now, Some(request.node)).is_empty() || !share.take.is_empty() {
        return Ok(Renewal::Rearrange);
    }
    let groups = match row.try_get::<Option<i64>, _>(10)? {
        Some(_) => Some(group_states_of(session, sql).await?),
        None => None,
    };
    Ok(Renewal::Unchanged(Box::new(members.membership(request.node, share.give, groups, now))))
}

/// A heartbeat that evicts, takes, trusts, releases or sweeps. It runs under the membership lock, which
/// excludes every other such call.
async fn rearrange(
    session: &mut Session,
    sql: &Sql,
    request: &Heartbeat,
) -> Result<Option<Membership>, DriverError> {
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
    let mut members = members(&mut tx, sql).await?;
    let share = members.share(request.node, &request.release);
    take(&mut tx, sql, &mut members, request.node, &share.take).await?;
    let states = group_states(&mut tx, sql).await?;
    let groups = (states.epoch != request.groups_seen).then_some(states);
    tx.commit().await?;
    Ok(Some(members.membership(request.node, share.give, groups, now)))
}

/// Waits for the membership lock, then reads the time: a time read before the wait would be stale.
async fn lock(tx: &mut Tx<'_>, sql: &Sql, given: Option<Timestamp>) -> Result<Timestamp, DriverError> {
    tx.query(&sql.membership_lock).execute(&mut *tx.tx).await?;
    match given {
        Some(now) => Ok(now),
        None => Ok(tx.query(&sql.clock).fetch_one(&mut *tx.tx).await?.try_get::<Time, _>(0)?.0),
    }
}

/// Deletes every expired node except the one that is renewing. The delete waits for the node's settles in
/// flight, which hold a share lock on its row; later settles find the row gone.
async fn evict(
    tx: &mut Tx<'_>,
    sql: &Sql,
    renewing: Option<NodeId>,
    now: Timestamp,
) -> Result<(), DriverError> {
    let renewing = renewing.map(|node| node.to_string()).unwrap_or_default();
    tx.query(&sql.node_evict).bind(Time(now)).bind(renewing).execute(&mut *tx.tx).await?;
    Ok(())
}

async fn release(tx: &mut Tx<'_>, sql: &Sql, request: &Heartbeat) -> Result<(), DriverError> {
    // A node never releases its own lane.
    let own = members(tx, sql).await?.lane_of(request.node).slot();
    let slots: Vec<i16> = request.release.iter().filter(|slot| **slot != own).map(|slot| slot.0).collect();
    tx.query(&sql.slots_release).bind(slots).bind(request.node.to_string()).execute(&mut *tx.tx).await?;
    Ok(())
}

async fn group_states(tx: &mut Tx<'_>, sql: &Sql) -> Result<GroupStates, DriverError> {
    let epoch = tx.query(&sql.epoch).fetch_one(&mut *tx.tx).await?.try_get(0)?;
    let rows = page_of(tx.query(&sql.groups), &HeldGroups::first()).fetch_all(&mut *tx.tx).await?;
    Ok(GroupStates { epoch, held: held_groups(&rows)? })
}

/// Reads the epoch first: if groups change in between, the next heartbeat finds a newer
/// epoch and reads them again.
async fn group_states_of(session: &mut Session, sql: &Sql) -> Result<GroupStates, DriverError> {
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
) -> Result<Option<Duration>, DriverError> {
    let row = session.query(&sql.next_due).fetch_optional(&mut session.connection).await?;
    let due = row.map(|row| row.try_get::<Time, _>(0)).transpose()?;
    Ok(due.map(|due| until(now, due.0)))
}

/// The time until the first delayed row that is not due yet.
pub(crate) async fn later_due(
    session: &mut Session,
    sql: &Sql,
    now: Timestamp,
) -> Result<Option<Duration>, DriverError> {
    let query = session.query(&sql.later_due).bind(Time(now));
    let row = query.fetch_optional(&mut session.connection).await?;
    let due = row.map(|row| row.try_get::<Time, _>(0)).transpose()?;
    Ok(due.map(|due| until(now, due.0)))
}

/// Parses a node's id from a column.
pub(crate) fn node_id(text: &str) -> Result<NodeId, DriverError> {
    NodeId::parse(text).map_err(|error| {
        DriverError::Refused(ErrorKind::Unexpected, format!("a node's id can't be read: {error}"))
    })
}

/// A slot as it is now.
pub(crate) async fn slot(session: &mut Session, sql: &Sql, slot: Slot) -> Result<SlotRecord, DriverError> {
    let row = session.query(&sql.members).fetch_one(&mut session.connection).await?;
    Ok(members_of(&row, 0)?.slot(slot))
}

/// The snapshot of nodes and slots that this transaction sees.
async fn members(tx: &mut Tx<'_>, sql: &Sql) -> Result<Members, DriverError> {
    members_of(&tx.query(&sql.members).fetch_one(&mut *tx.tx).await?, 0)
}

/// Decodes the arrays that begin at `column`: ids, lanes and expiries of nodes; then numbers, holders,
/// suspect flags, eviction counts and quarantine bounds of slots.
fn members_of(row: &PgRow, column: usize) -> Result<Members, DriverError> {
    let ids: Vec<String> = row.try_get(column)?;
    let lanes: Vec<i16> = row.try_get(column + 1)?;
    let expiries: Vec<Time> = row.try_get(column + 2)?;
    let slots: Vec<i16> = row.try_get(column + 3)?;
    let holders: Vec<Option<String>> = row.try_get(column + 4)?;
    let suspicions: Vec<bool> = row.try_get(column + 5)?;
    let evictions: Vec<i32> = row.try_get(column + 6)?;
    let bounds: Vec<i64> = row.try_get(column + 7)?;
    let nodes = ids.into_iter().zip(lanes).zip(expiries).map(|((id, lane), Time(expires_at))| {
        Ok::<_, DriverError>(Member { id: node_id(&id)?, lane: Lane(lane), expires_at, details: () })
    });
    let histories = suspicions.into_iter().zip(evictions).zip(bounds);
    let slots = slots.into_iter().zip(holders).zip(histories);
    let slots = slots.map(|((slot, holder), ((suspect, evictions), bound))| {
        let holder = holder.as_deref().map(node_id).transpose()?;
        let evictions = u32::try_from(evictions).unwrap_or_default();
        Ok::<_, DriverError>(SlotRecord::new(Slot(slot), holder, suspect, evictions, Seq(bound)))
    });
    Ok(Members::new(nodes.collect::<Result<_, _>>()?, slots.collect::<Result<_, _>>()?))
}

/// Takes slots, in the table and in the snapshot.
async fn take(
    tx: &mut Tx<'_>,
    sql: &Sql,
    members: &mut Members,
    node: NodeId,
    slots: &[Slot],
) -> Result<(), DriverError> {
    if slots.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i16> = slots.iter().map(|slot| slot.0).collect();
    tx.query(&sql.slots_take).bind(numbers).bind(node.to_string()).execute(&mut *tx.tx).await?;
    members.take(node, slots);
    Ok(())
}
