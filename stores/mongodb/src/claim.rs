//! Claiming rows under a lease.

use std::collections::HashMap;

use jiff::Timestamp;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use pillarbox::model::{Lane, Row};
use pillarbox::port::{Claim, ClaimFrom};

use crate::adopt::adopt;
use crate::call::{Call, Find};
use crate::document::{pending, unclaimed};
use crate::error::Failure;
use crate::number::head;
use crate::row::{Claimed, Fields, read_row};
use crate::time::{cut, earlier, later, us};

/// How many rows one claim takes at most: their ids stand in one command.
const MOST: usize = 10_000;
/// How often a claim looks again for rows in the place of those that others took meanwhile.
const TRIES: usize = 8;

pub(crate) async fn claim(call: &mut Call<'_>, request: &Claim) -> Result<Vec<Row>, Failure> {
    adopt(call).await?;
    let now = head(call).await?.now;
    let now = request.now.map_or(now, cut);
    let wanted = request.rows.min(MOST);
    let mut claimed = Vec::new();
    for _ in 0..TRIES {
        let room = wanted - claimed.len();
        if room == 0 {
            break;
        }
        let ids = claimable(call, request, now, room).await?;
        let found = ids.len();
        if found > 0 {
            claimed.extend(take(call, request, now, ids).await?);
        }
        // Fewer than there was room for: there are no more.
        if found < room || claimed.len() >= wanted {
            break;
        }
    }
    Ok(claimed)
}

/// Which rows may be had now.
fn condition(request: &Claim, now: Timestamp) -> Document {
    let mut condition = doc! {
        "status": pending(),
        "slot": match request.from {
            ClaimFrom::Queue => Bson::from(i32::from(Lane::QUEUE.0)),
            ClaimFrom::Events => Bson::from(doc! { "$gte": -1 }),
        },
        "available_at": { "$lte": us(now) },
        "$or": unclaimed(now),
    };
    if !request.skip_recent.is_zero() {
        condition.insert("created_at", doc! { "$lte": us(earlier(now, request.skip_recent)) });
    }
    condition
}

/// The keys of rows that are free, in order.
async fn claimable(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Bson>, Failure> {
    let sort = match request.from {
        ClaimFrom::Queue => doc! { "available_at": 1, "seq": 1 },
        ClaimFrom::Events => doc! { "seq": 1 },
    };
    let find =
        Find { filter: condition(request, now), sort: Some(sort), fields: Some(doc! { "_id": 1 }), limit };
    let found = call.find(&call.names().event, find).await?;
    Ok(found.iter().map(|document| Fields::new(document).key()).collect())
}

/// Takes those that are still free, and reads them back by the mark of this claim.
async fn take(
    call: &mut Call<'_>,
    request: &Claim,
    now: Timestamp,
    ids: Vec<Bson>,
) -> Result<Vec<Row>, Failure> {
    let mark = ObjectId::new();
    let mut filter = condition(request, now);
    filter.insert("_id", doc! { "$in": ids.clone() });
    let lock = doc! {
        "locked_by": request.owner.as_str(),
        "locked_at": us(now),
        "locked_until": us(later(now, request.lease)),
        "mark": mark,
    };
    let change = doc! { "$set": lock, "$inc": { "lock_token": 1_i64, "attempts": 1 } };
    if call.update_all(&call.names().event, filter, change).await? == 0 {
        return Ok(Vec::new());
    }
    let find = Find {
        filter: doc! { "_id": { "$in": ids.clone() }, "mark": mark },
        fields: Some(doc! { "failures": 0 }),
        ..Find::default()
    };
    let taken = call.find(&call.names().event, find).await?;
    let mut rows: HashMap<String, Row> =
        taken.iter().map(|row| (key_text(row), read_row(row, Claimed::Yes))).collect();
    Ok(ids.iter().filter_map(|id| rows.remove(&id.to_string())).collect())
}

fn key_text(document: &RawDocument) -> String {
    Fields::new(document).key().to_string()
}
