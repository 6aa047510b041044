//! Promoting due rows: moves them from lane −1 to the end of the order.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};
use pillarbox::model::Lane;
use pillarbox::port::{Order, Promote, Promoted};

use crate::call::{Call, Find};
use crate::document::pending;
use crate::error::DriverError;
use crate::locked::{self, Changes};
use crate::membership::{hold, later_due, next_due};
use crate::number::{Drawn, closed, draw};
use crate::row::Fields;
use crate::sessions::Holder;
use crate::time::{cut, until, us};

/// The maximum number of rows moved by one call.
const MOST: usize = 10_000;

pub(crate) async fn promote(call: &mut Call<'_>, request: &Promote) -> Result<Promoted, DriverError> {
    let Some(now) = hold(call, request.node).await? else {
        return Ok(Promoted::default());
    };
    let now = request.now.map_or(now, cut);
    let due = due(call, request, now).await?;
    let mut moved = 0;
    if !due.is_empty() {
        moved = place_all(call, request, &due).await?;
    }
    let next_due = next_due(call).await?.map(|due| until(now, due));
    let later = match next_due {
        Some(Duration::ZERO) => later_due(call, now).await?.map(|due| until(now, due)),
        _ => None,
    };
    Ok(Promoted { moved: usize::try_from(moved).unwrap_or(usize::MAX), next_due, later })
}

async fn due(
    call: &mut Call<'_>,
    request: &Promote,
    now: Timestamp,
) -> Result<Vec<RawDocumentBuf>, DriverError> {
    let limit = request.rows.min(MOST);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut filter =
        doc! { "status": pending(), "slot": i32::from(Lane::DELAYED.0), "available_at": { "$lte": us(now) } };
    let held = call.outbox().held.left_out();
    if !held.is_empty() {
        filter.insert("_id", doc! { "$nin": held });
    }
    let find = Find {
        filter,
        sort: Some(doc! { "available_at": 1, "seq": 1 }),
        fields: Some(doc! { "seq": 1, "home": 1, "group_key": 1 }),
        limit,
    };
    call.find(&call.names().event, find).await
}

/// Gives due rows new numbers and returns how many got one. Rows that another transaction holds stay.
async fn place_all(
    call: &mut Call<'_>,
    request: &Promote,
    due: &[RawDocumentBuf],
) -> Result<u64, DriverError> {
    let drawn = draw(call, due.len()).await?;
    let keys: Vec<Bson> = due.iter().map(|row| Fields::new(row).key()).collect();
    let statements = |part: Range<usize>| {
        let numbers = (drawn.first..).skip(part.start);
        due[part].iter().zip(numbers).map(|(row, seq)| place(row, seq, request)).collect()
    };
    let holder = Some(Holder::Node(request.node));
    let changes = Changes { keys: &keys, statements: &statements, most: keys.len(), holder };
    let changed = locked::change(call, &changes).await;
    match closed(call, &drawn, changed)?.count {
        Some(moved) => Ok(moved),
        None => placed(call, &drawn, keys).await,
    }
}

/// How many of these rows have got one of the drawn numbers.
async fn placed(call: &mut Call<'_>, drawn: &Drawn, keys: Vec<Bson>) -> Result<u64, DriverError> {
    let filter = doc! { "_id": { "$in": keys }, "seq": { "$gte": drawn.first } };
    let find = Find { filter, fields: Some(doc! { "_id": 1 }), ..Find::default() };
    Ok(call.find(&call.names().event, find).await?.len() as u64)
}

fn place(row: &RawDocumentBuf, seq: i64, request: &Promote) -> Document {
    let mut fields = Fields::new(row);
    let grouped = request.order == Order::PerGroup && fields.text("group_key").is_some();
    let slot = match fields.number("home") {
        Some(home) if grouped => home,
        _ => request.lane.0.into(),
    };
    // The filter repeats the old number and lane, so two nodes that promote at once move a row only once.
    let this = doc! { "_id": fields.key(), "seq": fields.seq().0, "status": pending(), "slot": i32::from(Lane::DELAYED.0) };
    doc! { "q": this, "u": { "$set": { "seq": seq, "slot": Bson::Int32(slot as i32) } } }
}
