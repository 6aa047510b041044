//! Reading pending rows in order, and how far the next read may start.

use std::ops::ControlFlow;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocument, doc};
use pillarbox::model::{Row, Seq, SlotSet};
use pillarbox::port::{Cursor, Fetch, Fetched, Scope};

use crate::adopt::adopt;
use crate::call::{Call, Find};
use crate::document::{pending, unclaimed};
use crate::error::Failure;
use crate::number::head;
use crate::row::{Claimed, Fields, read_row};
use crate::time::{cut, earlier, us};

/// Why a read ended.
enum End {
    /// Nothing more was there.
    Nothing,
    /// A limit was reached, and there was more.
    Cut,
    /// The next row, with this number, is too young.
    Young(Seq),
}

/// The rows of one read.
struct Read {
    rows: Vec<Row>,
    end: End,
}

pub(crate) async fn fetch(call: &mut Call<'_>, request: &Fetch) -> Result<Fetched, Failure> {
    adopt(call).await?;
    // Read before the rows: what it vouches for, the read sees.
    let head = head(call).await?;
    let now = request.now.map_or(head.now, cut);
    let (filter, cursor) = match &request.scope {
        Scope::Slots { slots, cursor } => {
            let slots = slots_filter(slots);
            let filter = slots
                .map(|slots| doc! { "status": pending(), "seq": { "$gt": cursor.decided.0 }, "slot": slots });
            (filter, Some(cursor))
        }
        Scope::Group { slot, group, from } => {
            let filter = doc! { "status": pending(), "seq": { "$gte": from.0 }, "slot": i32::from(slot.0), "group_key": group.as_str() };
            (Some(filter), None)
        }
        Scope::Due => (Some(due_filter(request, now)), None),
    };
    let read = match filter {
        Some(filter) => read(call, request, filter, now).await?,
        None => Read { rows: Vec::new(), end: End::Nothing },
    };
    let cursor =
        cursor.map(|cursor| Cursor { decided: next(cursor, &read, head.vouched), ..Cursor::default() });
    Ok(Fetched {
        more: matches!(read.end, End::Cut),
        rows: read.rows,
        cursor: cursor.unwrap_or_default(),
        now,
    })
}

/// Where the next read starts: never past a number whose row may still come.
fn next(cursor: &Cursor, read: &Read, vouched: i64) -> Seq {
    let seen = match &read.end {
        End::Nothing => vouched,
        End::Cut => read.rows.last().map_or(0, |row| row.seq.0),
        End::Young(seq) => seq.0 - 1,
    };
    cursor.decided.max(Seq(seen.min(vouched)))
}

fn due_filter(request: &Fetch, now: Timestamp) -> Document {
    let mut filter = doc! {
        "status": pending(),
        "slot": { "$gte": -1 },
        "available_at": { "$lte": us(now) },
        "$or": unclaimed(now),
    };
    if !request.skip_recent.is_zero() {
        filter.insert("created_at", doc! { "$lte": us(earlier(now, request.skip_recent)) });
    }
    filter
}

/// Slots as a condition: one range if they are one. Rows that wait or are queued are in none.
pub(crate) fn slots_filter(slots: &SlotSet) -> Option<Bson> {
    let ranges: Vec<(i16, i16)> = slots
        .ranges()
        .iter()
        .map(|&(first, last)| (first.max(0), last))
        .filter(|(first, last)| first <= last)
        .collect();
    match ranges.as_slice() {
        [] => None,
        [(first, last)] => Some(Bson::from(doc! { "$gte": i32::from(*first), "$lte": i32::from(*last) })),
        several => {
            let all: Vec<i32> =
                several.iter().flat_map(|&(first, last)| i32::from(first)..=i32::from(last)).collect();
            Some(Bson::from(doc! { "$in": all }))
        }
    }
}

async fn read(
    call: &mut Call<'_>,
    request: &Fetch,
    filter: Document,
    now: Timestamp,
) -> Result<Read, Failure> {
    // One more than asked for tells whether there is more.
    let find = Find {
        filter,
        sort: Some(doc! { "seq": 1 }),
        fields: Some(doc! { "failures": 0 }),
        limit: request.rows.saturating_add(1),
    };
    let mut read = Read { rows: Vec::new(), end: End::Nothing };
    let youngest = earlier(now, request.skip_recent);
    let mut bytes = 0_usize;
    let visit = |document: &RawDocument| {
        let mut fields = Fields::new(document);
        let created_at = fields.time("created_at").unwrap_or(Timestamp::MIN);
        if !request.skip_recent.is_zero() && created_at > youngest {
            read.end = End::Young(fields.seq());
            return ControlFlow::Break(());
        }
        if read.rows.len() >= request.rows || (bytes >= request.bytes && !read.rows.is_empty()) {
            read.end = End::Cut;
            return ControlFlow::Break(());
        }
        let row = read_row(document, Claimed::No);
        bytes = bytes.saturating_add(row.event.as_ref().map_or(0, |event| event.payload().size()));
        read.rows.push(row);
        ControlFlow::Continue(())
    };
    call.each(&call.names().event, find, visit).await?;
    Ok(read)
}
