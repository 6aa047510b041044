//! Membership: registers, renews and evicts nodes; assigns slots.
//!
//! Nodes and slots are one document with a version. A call reads it, computes the next state, and writes it
//! only if the version is unchanged. This compare-and-swap is exclusive without a lock or a transaction, and
//! a process that crashes in between leaves nothing for others to wait for.
//!
//! On a replica set each node also has fence documents. Every settle and take of the node writes one in its
//! transaction, so that evicting the node, which deletes them, conflicts with a settle that is still open.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, doc};
use pillarbox::model::{Lane, NodeId, Seq, Slot, SlotSet};
use pillarbox::port::{ErrorKind, Heartbeat, Membership, PendingRows, ReadScope, Register};
use pillarbox::rules::Member;
use tokio::time::timeout;

use crate::adopt::adopt;
use crate::call::{Call, Find, whole};
use crate::document::pending;
use crate::ending::{self, ENDING, Ending};
use crate::error::DriverError;
use crate::fetch::slots_filter;
use crate::groups::{Epoch, Folded, epoch_ids, fold_epoch, group_states};
use crate::kind::Kind;
use crate::members::{self, Details, Members};
use crate::outbox::{Outbox, Server, Step, late};
use crate::row::Fields;
use crate::sessions::{self, Holder};
use crate::time::{cut, earlier, from_date, later, us};

/// The id of the document of nodes and slots.
pub(crate) const MEMBERS: &str = "members";
/// How long an eviction waits for the server to kill the sessions of the evicted node, and again to delete
/// its fence documents. The server itself ends open transactions after a minute.
const SETTLED: Duration = Duration::from_secs(1);
/// Fence documents and session lists without a registered node are deleted once they are this old.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// The number of fence documents of a node, and so of settles that it can make at once: two transactions that write the
/// same document conflict.
pub(crate) const FENCES: usize = 2;

/// The stored state as one read found it. `now` is the database's time.
struct Found {
    members: Members,
    version: i64,
    epoch: Epoch,
    now: Timestamp,
    ending: Vec<Ending>,
}

pub(crate) async fn register<K: Kind>(
    call: &mut Call<'_>,
    request: &Register,
) -> Result<Membership, DriverError> {
    let (mut has_holds, mut ended) = (false, None);
    let mut tried = 0;
    loop {
        let Found { mut members, version, epoch, now: read_at, mut ending } = read(call).await?;
        let now = request.now.map_or(read_at, cut);
        evict::<K>(call, &mut members, &mut ending, (now, read_at), None).await?;
        // An evicted node with the same id has the same fence documents as the new registration: keep them.
        ending.retain(|ending| ending.node != request.node);
        if ended.is_none() && is_held(call) && !ending.is_empty() {
            // Evicted nodes end before the new node chooses its lane and slots, so that it can get theirs.
            if swap(call, &members, version, &ending).await? {
                ended = Some(end_all(call, &ending).await);
            } else if !call.retry(tried).await {
                return Err(DriverError::lost());
            }
            tried += 1;
            continue;
        }
        let gone = ended.as_deref().unwrap_or_default();
        ending.retain(|ending| !gone.contains(&ending.node));
        if members.has(request.node) {
            let detail = format!("node {} already exists", request.node);
            return Err(DriverError::Refused(ErrorKind::Conflict, detail));
        }
        if !has_holds {
            make_holds::<K>(call, request.node, now).await?;
            has_holds = true;
        }
        let withheld = ending::slots(&ending);
        let lane = free_lane(&members, request.reads, &withheld);
        let expires_at = later(now, request.lease);
        let details = Details { label: request.label.clone(), joined_at: now, state: None };
        let node = Member { id: request.node, lane, expires_at, details };
        members.add(node, |node| node.details.joined_at);
        members.take(request.node, &[lane.slot()]);
        let share = members.share(request.node, &withheld);
        members.take(request.node, &share.take);
        if swap(call, &members, version, &ending).await? {
            let groups = Some(group_states(call, epoch.value).await?);
            return Ok(members.membership(request.node, share.give, groups, now));
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

pub(crate) async fn heartbeat<K: Kind>(
    call: &mut Call<'_>,
    request: &Heartbeat,
) -> Result<Option<Membership>, DriverError> {
    let lanes = if request.sweep { K::lanes_in_use(call).await? } else { Vec::new() };
    let mut tried = 0;
    loop {
        let Found { mut members, version, epoch, now: read_at, mut ending } = read(call).await?;
        let now = request.now.map_or(read_at, cut);
        if !members.renew(request.node, later(now, request.lease)) {
            return Ok(None);
        }
        evict::<K>(call, &mut members, &mut ending, (now, read_at), Some(request.node)).await?;
        members.trust(request.node, &request.trusted);
        members.release(request.node, &request.release);
        members.add_lanes(&lanes);
        let mut withheld = ending::slots(&ending);
        withheld.extend(&request.release);
        let share = members.share(request.node, &withheld);
        members.take(request.node, &share.take);
        if swap(call, &members, version, &ending).await? {
            let mut shared = Shared { members, give: share.give };
            // After the swap: a settle that begins now already finds its node gone, and only older ones need
            // the fence.
            end_and_share(call, &mut shared, request.node, (&ending, &request.release)).await;
            if request.sweep {
                forget_holds(call, &shared.members, now).await?;
                fold(call.outbox(), epoch);
            }
            if let Some(lead) = K::lead_key(request.node)
                && !request.release.is_empty()
                && is_held(call)
            {
                // A concurrent take commits before this write, or conflicts with it, retries and finds the
                // slot released.
                touch_lead(call, lead).await?;
            }
            let groups = match epoch.value == request.groups_seen {
                true => None,
                false => Some(group_states(call, epoch.value).await?),
            };
            return Ok(Some(shared.members.membership(request.node, shared.give, groups, now)));
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

/// The members after a change, and the slots that the node should release.
struct Shared {
    members: Members,
    give: Vec<Slot>,
}

/// Ends evicted nodes, and gives a node that has renewed its lease its share of their slots.
///
/// A failure is only logged: the node gets these slots with a later heartbeat.
async fn end_and_share(
    call: &mut Call<'_>,
    shared: &mut Shared,
    node: NodeId,
    (ending, releasing): (&[Ending], &[Slot]),
) {
    if !is_held(call) || ending.is_empty() {
        return;
    }
    let gone = end_all(call, ending).await;
    if !gone.is_empty()
        && let Err(failure) = share_of(call, shared, node, (&gone, releasing)).await
    {
        warn_of_ending(call, failure);
    }
}

/// Ends evicted nodes. Returns them, or none if that failed: their slots stay withheld then.
async fn end_all(call: &mut Call<'_>, ending: &[Ending]) -> Vec<NodeId> {
    let gone: Vec<NodeId> = ending.iter().map(|ending| ending.node).collect();
    match end_evicted(call, &gone).await {
        Ok(true) => gone,
        Ok(false) => Vec::new(),
        Err(failure) => {
            warn_of_ending(call, failure);
            Vec::new()
        }
    }
}

fn warn_of_ending(call: &Call<'_>, failure: DriverError) {
    let error = failure.into_store_error("end evicted nodes", call.outbox().database.name());
    tracing::warn!(%error, "could not end an evicted node; its slots stay free for now");
}

/// Takes ended nodes off the list, and takes a node's share of the slots that become free.
async fn share_of(
    call: &mut Call<'_>,
    shared: &mut Shared,
    node: NodeId,
    (gone, releasing): (&[NodeId], &[Slot]),
) -> Result<(), DriverError> {
    let mut tried = 0;
    loop {
        let Found { members, version, mut ending, .. } = read(call).await?;
        let mut members = shared.members.clone().reread(members);
        ending.retain(|ending| !gone.contains(&ending.node));
        let mut withheld = ending::slots(&ending);
        withheld.extend(releasing);
        let share = match members.has(node) {
            true => members.share(node, &withheld),
            false => return Ok(()),
        };
        members.take(node, &share.take);
        if swap(call, &members, version, &ending).await? {
            *shared = Shared { members, give: share.give };
            return Ok(());
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

/// The lane for a new node. A lane that is withheld is in use.
fn free_lane(members: &Members, reads: ReadScope, withheld: &[Slot]) -> Lane {
    let mut members = members.clone();
    members.take(NodeId::from_random(0), withheld);
    members.free_lane(reads)
}

/// Stores the state that a node publishes about itself.
///
/// It does not raise the version. A concurrent change of the list may overwrite the state; the node publishes
/// again with its next change.
pub(crate) async fn publish(call: &mut Call<'_>, node: NodeId, state: &str) -> Result<(), DriverError> {
    let own = doc! { "_id": MEMBERS, "nodes.id": node.to_string() };
    call.update_all(&call.names().meta, own, doc! { "$set": { "nodes.$.state": state } }).await?;
    Ok(())
}

pub(crate) async fn leave(call: &mut Call<'_>, node: NodeId) -> Result<(), DriverError> {
    let mut tried = 0;
    loop {
        let Found { mut members, version, ending, .. } = read(call).await?;
        if !members.leave(node) {
            return Ok(());
        }
        if swap(call, &members, version, &ending).await? {
            return end_holds(call, &holds_of(node)).await.map(drop);
        }
        if !call.retry(tried).await {
            return Err(DriverError::lost());
        }
        tried += 1;
    }
}

/// Removes all expired nodes, except the node that is renewing its lease. Their slots are withheld until the
/// nodes have ended.
async fn evict<K: Kind>(
    call: &mut Call<'_>,
    members: &mut Members,
    ending: &mut Vec<Ending>,
    (now, read_at): (Timestamp, Timestamp),
    renewing: Option<NodeId>,
) -> Result<(), DriverError> {
    let dead = members.expired(now, renewing);
    if dead.is_empty() {
        return Ok(());
    }
    if is_held(call) {
        ending.extend(dead.iter().map(|node| Ending::of(members, *node, read_at)));
    }
    members.evict(&dead, K::pending_upto(call).await?);
    Ok(())
}

/// The highest pending number; zero if nothing is pending.
pub(crate) async fn pending_upto(call: &mut Call<'_>) -> Result<Option<Seq>, DriverError> {
    let find = Find {
        filter: doc! { "status": pending() },
        sort: Some(doc! { "seq": -1 }),
        fields: Some(doc! { "seq": 1 }),
        limit: 1,
    };
    let last = call.first(&call.names().event, find).await?;
    Ok(Some(last.map_or(Seq(0), |row| Fields::new(&row).seq())))
}

/// Checks that a node may settle: returns the database's time, or `None` if the node is not registered.
///
/// In a transaction this also writes one of the node's fence documents, so that an eviction conflicts until the
/// transaction ends. Without a transaction, outcomes are still applied if the node is evicted right after
/// this check.
pub(crate) async fn hold(call: &mut Call<'_>, node: NodeId) -> Result<Option<Timestamp>, DriverError> {
    let find = Find {
        filter: doc! { "_id": MEMBERS, "nodes.id": node.to_string() },
        fields: Some(doc! { "now": "$$NOW" }),
        ..Find::default()
    };
    let Some(found) = call.first(&call.names().meta, find).await? else {
        // The node is not registered, or the collections do not exist.
        let members = Find { filter: doc! { "_id": MEMBERS }, ..Find::default() };
        return match call.first(&call.names().meta, members).await? {
            Some(_) => Ok(None),
            None => Err(DriverError::missing()),
        };
    };
    let now = Fields::new(&found).time("now").ok_or_else(DriverError::missing)?;
    let mut there = true;
    if call.in_transaction() {
        let own = doc! { "_id": fence_key(node, call.fence) };
        there = call.update_all(&call.names().node, own, doc! { "$inc": { "settles": 1_i64 } }).await? > 0;
    }
    Ok(there.then_some(now))
}

/// Checks that a node may take items: it is registered and holds the leader's slot.
///
/// This writes a different fence document from `hold`, so that a node can take and settle concurrently.
pub(crate) async fn hold_lead(call: &mut Call<'_>, node: NodeId) -> Result<bool, DriverError> {
    let leading = doc! { "$elemMatch": { "slot": 0, "holder": node.to_string() } };
    let filter = doc! { "_id": MEMBERS, "nodes.id": node.to_string(), "slots": leading };
    let find = Find { filter, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    if call.first(&call.names().meta, find).await?.is_none() {
        return Ok(false);
    }
    Ok(!call.in_transaction() || touch_lead(call, lead_key(node)).await?)
}

/// Writes the fence document of a node's takes. Returns false if it does not exist.
async fn touch_lead(call: &mut Call<'_>, lead: String) -> Result<bool, DriverError> {
    let own = doc! { "_id": lead };
    Ok(call.update_all(&call.names().node, own, doc! { "$inc": { "takes": 1_i64 } }).await? > 0)
}

/// The key of one of the fence documents of a node's settles.
fn fence_key(node: NodeId, fence: usize) -> String {
    if fence == 0 { node.to_string() } else { format!("{node} settles {fence}") }
}

/// The key of the fence document of a node's takes.
pub(crate) fn lead_key(node: NodeId) -> String {
    format!("{node} leads")
}

/// Whether settles and takes are transactions and so need fence documents.
fn is_held(call: &Call<'_>) -> bool {
    call.outbox().server == Server::Replicated
}

/// Creates the fence documents and the session list of a node. They must exist before the node can settle.
async fn make_holds<K: Kind>(call: &mut Call<'_>, node: NodeId, now: Timestamp) -> Result<(), DriverError> {
    if !is_held(call) {
        return Ok(());
    }
    let made_at = us(now);
    let fence = |fence| (fence_key(node, fence), doc! { "settles": 0_i64, "made_at": made_at });
    let mut documents: Vec<(String, Document)> = (0..FENCES).map(fence).collect();
    documents.push((Holder::Node(node).key(), doc! { "sessions": [], "made_at": made_at }));
    documents.extend(K::lead_key(node).map(|lead| (lead, doc! { "takes": 0_i64, "made_at": made_at })));
    // Documents of an earlier attempt to register, whose answer was lost, stay.
    let missing = |(key, new): (String, Document)| doc! { "q": { "_id": key }, "u": { "$setOnInsert": new }, "upsert": true };
    call.update(&call.names().node, documents.into_iter().map(missing).collect()).await.map(drop)
}

/// Kills the open sessions of evicted nodes and deletes their fence documents. Returns whether no settle of
/// them can be applied any more.
///
/// Until then nobody gets their slots: every registration and heartbeat tries again. So nobody delivers the
/// rows of an evicted node while a settle of it may still be applied, even if the process that evicted it has
/// crashed. The exception are sessions of another user, which only the server ends.
async fn end_evicted(call: &mut Call<'_>, gone: &[NodeId]) -> Result<bool, DriverError> {
    let killed = timeout(SETTLED, sessions::end(call, gone.iter().copied().map(Holder::Node))).await;
    let killed = killed.unwrap_or_else(|_| Err(late()));
    let is_refused = killed.as_ref().is_err_and(DriverError::is_refusal);
    let is_killed = killed.is_ok();
    if let Err(failure) = killed {
        let error = failure.into_store_error("end sessions", call.outbox().database.name());
        tracing::warn!(%error, "could not end the sessions of an evicted node; the server ends them later");
    }
    // Without the fence documents, no settle that begins later or has an older snapshot is applied. The next
    // attempt needs the session list, unless the sessions were killed or never can be.
    let ids: Vec<String> = if is_killed || is_refused {
        gone.iter().flat_map(|node| holds_of(*node)).collect()
    } else {
        gone.iter().flat_map(|node| fences_of(*node)).collect()
    };
    Ok(end_holds(call, &ids).await? || is_killed || is_refused)
}

/// Merges the documents that changes of held groups have left, if there are many, in the background.
///
/// Without the right to delete them, or if another node does the same, they stay.
fn fold(outbox: &Arc<Outbox>, epoch: Epoch) {
    if !epoch.is_scattered || outbox.fold.is_running.swap(true, Ordering::Relaxed) {
        return;
    }
    let outbox = Arc::clone(outbox);
    let tasks = outbox.tasks.clone();
    tasks.spawn(async move {
        let once = Step::Briefly(1);
        let folded = loop {
            let deadline = outbox.deadline();
            match outbox.perform(once.clone(), deadline, &(), |call, ()| Box::pin(fold_epoch(call))).await {
                Ok(Folded::All) => break Ok(()),
                Ok(Folded::SomeLeft) => {}
                Err(failure) => break Err(failure),
            }
        };
        if let Err(failure) = folded {
            let is_news = failure.is_refusal() && !outbox.fold.is_told.swap(true, Ordering::Relaxed);
            let error = failure.into_store_error("fold the epoch", outbox.database.name());
            if is_news {
                tracing::warn!(
                    %error,
                    collection = %outbox.names.meta,
                    "the user may not remove documents; changes of held groups pile up",
                );
            } else {
                tracing::debug!(%error, "could not merge the changes of held groups");
            }
        }
        outbox.fold.is_running.store(false, Ordering::Relaxed);
    });
}

/// Deletes fence documents of nodes that are no longer registered. Returns false if an open settle holds one.
///
/// The delete waits up to `SETTLED` for a settle that has already written its fence document. A settle that
/// begins later finds the node gone.
async fn end_holds(call: &mut Call<'_>, ids: &[String]) -> Result<bool, DriverError> {
    if !is_held(call) {
        return Ok(true);
    }
    match timeout(SETTLED, call.delete(&call.names().node, doc! { "_id": { "$in": ids } })).await {
        Ok(ended) => ended.map(|_| true),
        Err(_) => {
            tracing::debug!("a node was removed in the middle of a settle");
            Ok(false)
        }
    }
}

/// The keys of a node's fence documents.
fn fences_of(node: NodeId) -> Vec<String> {
    (0..FENCES).map(|fence| fence_key(node, fence)).chain([lead_key(node)]).collect()
}

/// The keys of a node's fence documents and of its session list.
fn holds_of(node: NodeId) -> Vec<String> {
    let mut keys = fences_of(node);
    keys.push(Holder::Node(node).key());
    keys
}

/// Deletes old fence documents and session lists without a registered node, such as those an eviction could
/// not delete in time.
async fn forget_holds(call: &mut Call<'_>, members: &Members, now: Timestamp) -> Result<(), DriverError> {
    if !is_held(call) {
        return Ok(());
    }
    let living: Vec<String> = members.nodes().iter().map(|node| node.id).flat_map(holds_of).collect();
    let left = doc! { "_id": { "$nin": living }, "made_at": { "$lt": us(earlier(now, KEPT)) } };
    call.delete(&call.names().node, left).await.map(drop)
}

/// The members and the database's time, for operators.
pub(crate) async fn members(call: &mut Call<'_>) -> Result<(Members, Timestamp), DriverError> {
    let Found { members, now, .. } = read(call).await?;
    Ok((members, now))
}

async fn read(call: &mut Call<'_>) -> Result<Found, DriverError> {
    let find = Find {
        filter: doc! { "$or": [{ "_id": MEMBERS }, { "_id": epoch_ids() }] },
        sort: Some(doc! { "_id": 1 }),
        fields: Some(doc! {
            "nodes": 1, "slots": 1, "quarantine": 1, ENDING: 1, "version": 1, "value": 1, "now": "$$NOW"
        }),
        ..Find::default()
    };
    let found = call.find(&call.names().meta, find).await?;
    let found =
        found.iter().map(|document| Document::try_from(&**document)).collect::<Result<Vec<_>, _>>()?;
    let epoch = Epoch::read(&found).ok_or_else(DriverError::missing)?;
    let members = found.iter().find(|document| document.get_str("_id").is_ok_and(|id| id == MEMBERS));
    let members = members.ok_or_else(DriverError::missing)?;
    let now = members.get_datetime("now").copied().map_err(|_| DriverError::missing())?;
    let version = whole(members, "version").ok_or_else(DriverError::missing)?;
    let now = from_date(now);
    // The transactions of older ones have ended by themselves.
    let ending = ending::read(members, earlier(now, call.outbox().lifetime));
    Ok(Found { members: members::read(members)?, version, epoch, now, ending })
}

/// Compare-and-swap: writes the next state, and the evicted nodes that have not ended. Returns false if the
/// version has changed since the read.
async fn swap(
    call: &mut Call<'_>,
    members: &Members,
    version: i64,
    ending: &[Ending],
) -> Result<bool, DriverError> {
    let mut next = members::to_document(members);
    next.insert("version", version + 1);
    if is_held(call) {
        next.insert(ENDING, ending::to_list(ending));
    }
    let this = doc! { "_id": MEMBERS, "version": version };
    Ok(call.update(&call.names().meta, vec![doc! { "q": this, "u": { "$set": next } }]).await? > 0)
}

/// Lanes with pending rows.
pub(crate) async fn lanes_in_use(call: &mut Call<'_>) -> Result<Vec<Slot>, DriverError> {
    let pipeline = vec![
        doc! { "$match": { "status": pending(), "slot": { "$gte": 64 } } },
        doc! { "$group": { "_id": "$slot" } },
    ];
    let found = call.aggregate(&call.names().event, pipeline).await?;
    let lanes = found.iter().filter_map(|lane| whole(lane, "_id"));
    Ok(lanes.filter_map(|lane| i16::try_from(lane).ok()).map(Slot).collect())
}

/// Looks for pending rows above a number. Runs after the heartbeat, so that a slow search cannot cost the
/// node its lease.
pub(crate) async fn waiting(
    call: &mut Call<'_>,
    held: &SlotSet,
    after: Seq,
) -> Result<PendingRows, DriverError> {
    adopt(call).await?;
    let mut waiting = PendingRows { ready: false, oldest: None, next_due: next_due(call).await? };
    let Some(slots) = slots_filter(held) else { return Ok(waiting) };
    let of = |seq: Document| doc! { "status": pending(), "seq": seq, "slot": slots.clone() };
    if let Some((seq, created_at)) = oldest(call, of(doc! { "$gt": 0_i64 })).await? {
        waiting.oldest = created_at;
        waiting.ready = seq > after || oldest(call, of(doc! { "$gt": after.0 })).await?.is_some();
    }
    Ok(waiting)
}

/// The row with the lowest number, and when it was written.
///
/// Some servers sort all matching rows before they return the first. So this reads any one row, and then
/// sorts only the rows up to it, which are few.
async fn oldest(
    call: &mut Call<'_>,
    filter: Document,
) -> Result<Option<(Seq, Option<Timestamp>)>, DriverError> {
    let fields = || Some(doc! { "seq": 1, "created_at": 1 });
    let any = Find { filter: filter.clone(), sort: None, fields: fields(), limit: 1 };
    let Some(any) = call.first(&call.names().event, any).await? else { return Ok(None) };
    let upto = doc! { "seq": { "$lte": Fields::new(&any).seq().0 } };
    let filter = doc! { "$and": [filter, upto] };
    let first = Find { filter, sort: Some(doc! { "seq": 1 }), fields: fields(), limit: 1 };
    // If the row was deleted in between, use the one seen before.
    let row = call.first(&call.names().event, first).await?.unwrap_or(any);
    let mut fields = Fields::new(&row);
    Ok(Some((fields.seq(), fields.time("created_at"))))
}

/// The due time of the first delayed row, which may have passed.
pub(crate) async fn next_due(call: &mut Call<'_>) -> Result<Option<Timestamp>, DriverError> {
    first_due(call, doc! { "status": pending(), "slot": Bson::Int32(-1) }).await
}

/// The due time of the first delayed row that is not due yet.
pub(crate) async fn later_due(call: &mut Call<'_>, now: Timestamp) -> Result<Option<Timestamp>, DriverError> {
    let ahead = doc! { "$gt": us(now) };
    first_due(call, doc! { "status": pending(), "slot": Bson::Int32(-1), "available_at": ahead }).await
}

async fn first_due(call: &mut Call<'_>, filter: Document) -> Result<Option<Timestamp>, DriverError> {
    let find = Find {
        filter,
        sort: Some(doc! { "available_at": 1, "seq": 1 }),
        fields: Some(doc! { "available_at": 1 }),
        limit: 1,
    };
    let found = call.first(&call.names().event, find).await?;
    Ok(found.and_then(|row| Fields::new(&row).time("available_at")))
}
