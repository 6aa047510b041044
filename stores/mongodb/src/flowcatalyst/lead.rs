//! The leader's operations: takes the first items of each group in turn, and recovers items that others left
//! in processing.

use std::collections::HashSet;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::{EventId, GroupKey, Slot, SlotSet};
use pillarbox::port::{Order, PendingRows, Recover, Take, Taken};

use super::item::{PENDING, PROCESSING, date, ended_before, now};
use super::mark::{mark, taken_at};
use crate::call::{Call, Find};
use crate::claim::set_some;
use crate::error::DriverError;
use crate::groups::held_of;
use crate::locked::{Around, around};
use crate::membership::hold_lead;
use crate::row::{Fields, SIZE, size, size_of};
use crate::sessions::Holder;
use crate::time::earlier;

/// The minimum and maximum number of documents in a page. The next page begins after the last group of this
/// one, so it skips the rest of a large group.
const PAGE: (usize, usize) = (64, 1_024);

/// Takes items in one transaction, except those that another transaction holds and those that must not
/// overtake them.
pub(crate) async fn take(call: &mut Call<'_>, request: &Take) -> Result<Taken, DriverError> {
    let try_on = Bson::from(taken_at(Timestamp::UNIX_EPOCH));
    let holder = Holder::Node(request.node);
    around(
        call.outbox(),
        holder,
        request,
        (|call, around| Box::pin(heads(call, around)), try_on),
        |call, around| {
            Box::pin(async {
                if !hold_lead(call, around.request.node).await? {
                    return Ok(Taken { leads: false, rows: Vec::new() });
                }
                let now = now(call, around.request.now).await?;
                let keys = heads(call, around).await?;
                Ok(Taken { leads: true, rows: mark(call, keys, now, &around.request.bytes).await? })
            })
        },
    )
    .await
}

/// The items to take.
async fn heads(call: &mut Call<'_>, around: &Around<'_, Take>) -> Result<Vec<Bson>, DriverError> {
    let request = around.request;
    let mut taking = Taking::new(around);
    if request.after.is_none() {
        let room = request.ungrouped.min(taking.rows);
        let mut ungrouped = match request.ungrouped_order {
            Order::PerGroup => taking.ahead_of_held(first_of(call, &Bson::Null, room).await?),
            Order::None => {
                let mut free =
                    first_of(call, &Bson::Null, room + around.held.len().min(room * PAGE.1)).await?;
                free.retain(|head| !around.held.contains(&head.key));
                free
            }
        };
        ungrouped.truncate(room);
        taking.heads.extend(ungrouped);
    }
    while taking.read(call).await? {}
    let fitting = request.bytes.fitting(taking.heads.iter().map(|head| head.size));
    Ok(taking.heads.into_iter().take(fitting).map(|head| head.key).collect())
}

/// Makes items pending that others left in processing, except those that another transaction holds.
pub(crate) async fn recover(call: &mut Call<'_>, request: &Recover) -> Result<u64, DriverError> {
    let try_on = Bson::from(taken_at(Timestamp::UNIX_EPOCH));
    let holder = Holder::Node(request.node);
    around(
        call.outbox(),
        holder,
        request,
        (|call, around| Box::pin(stuck_keys(call, around)), try_on),
        |call, around| {
            Box::pin(async {
                if !hold_lead(call, around.request.node).await? {
                    return Ok(0);
                }
                let stuck = stuck(call, around).await?;
                set_some(call, stuck, around.request.rows, doc! { "status": PENDING }).await
            })
        },
    )
    .await
}

async fn stuck_keys(call: &mut Call<'_>, around: &Around<'_, Recover>) -> Result<Vec<Bson>, DriverError> {
    let limit = around.request.rows;
    if limit == 0 {
        return Ok(Vec::new());
    }
    let find = Find {
        filter: stuck(call, around).await?,
        fields: Some(doc! { "_id": 1 }),
        limit: limit.min(Take::MOST),
        ..Find::default()
    };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| Fields::new(document).key()).collect())
}

/// The filter of items to recover.
async fn stuck(call: &Call<'_>, around: &Around<'_, Recover>) -> Result<Document, DriverError> {
    let request = around.request;
    let now = now(call, request.now).await?;
    let in_hand = request.except.iter().map(|id| Bson::from(EventId::as_str(id)));
    let except: Vec<Bson> = in_hand.chain(around.held.iter().cloned()).collect();
    let mut stuck = doc! { "status": PROCESSING, "_id": { "$nin": except } };
    if !request.older_than.is_zero() {
        stuck.insert("$or", ended_before(earlier(now, request.older_than)));
    }
    Ok(stuck)
}

/// Whether items are pending; only the leader, which holds slot 0, gets an answer.
pub(super) async fn waiting(call: &mut Call<'_>, held: &SlotSet) -> Result<PendingRows, DriverError> {
    let mut waiting = PendingRows { ready: false, oldest: None, next_due: None };
    if held.contains(Slot(0)) {
        let filter = doc! { "status": PENDING };
        // The sort follows the index. A sort by id would read all pending items.
        let sort = Some(doc! { "messageGroup": 1, "createdAt": 1 });
        let find = Find { filter, sort, fields: Some(doc! { "createdAt": 1 }), limit: 1 };
        let first = call.first(&call.names().event, find).await?;
        waiting.ready = first.is_some();
        waiting.oldest = first.and_then(|row| Fields::new(&row).time("createdAt"));
    }
    Ok(waiting)
}

/// An item to take.
#[derive(Clone)]
struct Head {
    key: Bson,
    group: String,
    written: Option<Timestamp>,
    id: String,
    size: usize,
}

impl Head {
    fn read(document: &RawDocumentBuf) -> Self {
        let mut fields = Fields::new(document);
        let group = fields.text("messageGroup").unwrap_or_default().to_owned();
        let (written, id) = (fields.time("createdAt"), fields.id().to_string());
        Self { key: fields.key(), group, written, id, size: size_of(document) }
    }

    fn fields() -> Option<Document> {
        Some(doc! { "messageGroup": 1, "createdAt": 1, SIZE: size() })
    }
}

/// Sorts items by time and id. The index does not contain ids, so items of the same time are ordered here.
fn in_order(mut heads: Vec<Head>) -> Vec<Head> {
    heads.sort_by(|a, b| (a.written, &a.id).cmp(&(b.written, &b.id)));
    heads
}

/// The first items of a group, or of the ungrouped items if `group` is null.
async fn first_of(call: &mut Call<'_>, group: &Bson, limit: usize) -> Result<Vec<Head>, DriverError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let filter = doc! { "status": PENDING, "messageGroup": group };
    let sort = Some(doc! { "createdAt": 1 });
    let find = Find { filter: filter.clone(), sort, fields: Head::fields(), limit };
    let mut heads: Vec<Head> = call.find(&call.names().event, find).await?.iter().map(Head::read).collect();
    // Items beyond the limit may have the same time as the last one and a lower id: read all candidates of
    // that time by id.
    if let Some(last) = heads.last().and_then(|head| head.written).filter(|_| heads.len() == limit) {
        let mut same = filter;
        same.insert("createdAt", date(last));
        let find = Find { filter: same, sort: Some(doc! { "_id": 1 }), fields: Head::fields(), limit };
        heads.retain(|head| head.written != Some(last));
        heads.extend(call.find(&call.names().event, find).await?.iter().map(Head::read));
    }
    let mut heads = in_order(heads);
    heads.truncate(limit);
    Ok(heads)
}

/// The held groups among the groups of these items.
async fn held_among(call: &mut Call<'_>, page: &[Head]) -> Result<HashSet<String>, DriverError> {
    if page.is_empty() {
        return Ok(HashSet::new());
    }
    let groups = page.chunk_by(|a, b| a.group == b.group).map(|run| run[0].group.as_str());
    let held = held_of(call, &groups.collect::<Vec<_>>()).await?;
    Ok(held.into_iter().map(|held| held.group.to_string()).collect())
}

/// A take in progress: the items found so far.
struct Taking<'a> {
    rows: usize,
    each: usize,
    page: usize,
    except: Vec<&'a str>,
    /// Items that other transactions hold.
    held: &'a [Bson],
    heads: Vec<Head>,
    last: Option<String>,
}

impl<'a> Taking<'a> {
    fn new(around: &'a Around<'a, Take>) -> Self {
        let request = around.request;
        let rows = request.rows.min(Take::MOST);
        Self {
            rows,
            each: request.each,
            page: rows.clamp(PAGE.0, PAGE.1),
            except: request.except.iter().map(GroupKey::as_str).collect(),
            held: &around.held,
            heads: Vec::new(),
            last: request.after.as_ref().map(|after| after.as_str().to_owned()),
        }
    }

    /// The items of one group before the first that another transaction holds: later ones must not overtake
    /// it.
    fn ahead_of_held(&self, heads: Vec<Head>) -> Vec<Head> {
        heads.into_iter().take_while(|head| !self.held.contains(&head.key)).collect()
    }

    /// Reads a page and keeps the first items of each group. Returns whether there may be more.
    async fn read(&mut self, call: &mut Call<'_>) -> Result<bool, DriverError> {
        if self.heads.len() >= self.rows || self.each == 0 {
            return Ok(false);
        }
        let mut groups = match &self.last {
            None => doc! { "$gte": "" },
            Some(last) => doc! { "$gt": last.as_str() },
        };
        groups.insert("$nin", self.except.clone());
        let find = Find {
            // Only groups after the last one: each group is visited once.
            filter: doc! { "status": PENDING, "messageGroup": groups },
            sort: Some(doc! { "messageGroup": 1, "createdAt": 1 }),
            fields: Head::fields(),
            limit: self.page,
        };
        let page = call.find(&call.names().event, find).await?;
        let page: Vec<Head> = page.iter().map(Head::read).collect();
        let full = page.len() >= self.page;
        let held = held_among(call, &page).await?;
        let mut runs = page.chunk_by(|a, b| a.group == b.group).peekable();
        while let Some(run) = runs.next() {
            let cut = full && runs.peek().is_none();
            if held.contains(&run[0].group) {
                self.last = Some(run[0].group.clone());
                continue;
            }
            let room = self.each.min(self.rows - self.heads.len());
            let heads = match cut {
                // The page cuts off this group, and items of the same time with a lower id may be on the next
                // page.
                true => first_of(call, &Bson::from(run[0].group.as_str()), room).await?,
                false => in_order(run.to_vec()).into_iter().take(room).collect(),
            };
            let heads = self.ahead_of_held(heads);
            self.heads.extend(heads);
            self.last = Some(run[0].group.clone());
        }
        Ok(full)
    }
}
