//! Reading pending rows in order, and how far the next read may start.

use std::ops::ControlFlow;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use pillarbox::model::{Row, Seq, SlotSet, WithClaim};
use pillarbox::port::{Cursor, Fetch, Fetched, Scope};

use crate::adopt::adopted;
use crate::call::{Call, Find};
use crate::document::{pending, unclaimed};
use crate::error::Failure;
use crate::number::Head;
use crate::row::{Fields, read_within};
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

/// By how much each window of numbers is wider than the one before it. The first has room for all rows that are wanted.
///
/// There are servers that sort all that matches before they answer with the first of it.
const WIDER: i64 = 8;
const SMALLEST_WINDOW: i64 = 100;

/// The rows of one read.
struct Read<'a> {
    request: &'a Fetch,
    now: Timestamp,
    rows: Vec<Row>,
    bytes: usize,
    end: End,
}

pub(crate) async fn fetch(call: &mut Call<'_>, request: &Fetch) -> Result<Fetched, Failure> {
    // Read before the rows: what it vouches for, the read sees. Numbers that are drawn later are left for the next read: a
    // row that was committed before they were drawn may be missing in the part that is read first.
    let head = adopted(call).await?;
    let now = request.now.map_or(head.now, cut);
    let mut read = Read::new(request, now);
    let mut next_cursor = Cursor::default();
    match &request.scope {
        Scope::Slots { slots, cursor } => {
            let cursor = &started(cursor, head.last);
            if let Some(slots) = slots_filter(slots) {
                read.slots(call, &slots, cursor.decided.0, &head).await?;
            }
            next_cursor.decided = next(cursor, &read, head.vouched);
        }
        Scope::Group { slot, group, from } => {
            let slot = i32::from(slot.0);
            let of_group = doc! { "status": pending(), "slot": slot, "group_key": group.as_str() };
            read.part(call, of_group, Some(doc! { "$gte": from.0, "$lte": head.last })).await?;
        }
        Scope::Due => read.part(call, due_filter(request, now), None).await?,
    }
    Ok(Fetched { more: matches!(read.end, End::Cut), rows: read.rows, cursor: next_cursor, now })
}

/// A cursor beyond the last number is of numbers that were given before (a rollback after a failover, a restore): it starts
/// anew.
fn started(given: &Cursor, last: i64) -> Cursor {
    if given.decided.0 > last { Cursor::default() } else { given.clone() }
}

/// Where the next read starts: never past a number whose row may still come.
fn next(cursor: &Cursor, read: &Read<'_>, vouched: i64) -> Seq {
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

impl<'a> Read<'a> {
    fn new(request: &'a Fetch, now: Timestamp) -> Self {
        Self { request, now, rows: Vec::new(), bytes: 0, end: End::Nothing }
    }

    /// Reads slots above a number and up to the last one, in windows.
    ///
    /// Above what is vouched for there is one window: rows of one transaction have numbers side by side, and a commit
    /// between the reads of two windows would show those of the second without those of the first.
    async fn slots(
        &mut self,
        call: &mut Call<'_>,
        slots: &Bson,
        mut above: i64,
        head: &Head,
    ) -> Result<(), Failure> {
        let last = head.last;
        let of_slots = doc! { "status": pending(), "slot": slots.clone() };
        let rows = i64::try_from(self.request.rows).unwrap_or(i64::MAX);
        let mut width = rows.saturating_add(1).max(SMALLEST_WINDOW);
        while above.saturating_add(width) < head.vouched {
            let upto = above + width;
            let window = doc! { "$gt": above, "$lte": upto };
            if width > self.room() || !self.small(call, &of_slots, &window).await? {
                self.part(call, of_slots.clone(), Some(window)).await?;
            }
            if !matches!(self.end, End::Nothing) {
                return Ok(());
            }
            above = upto;
            width = width.saturating_mul(WIDER);
        }
        if above >= last {
            return Ok(());
        }
        let rest = doc! { "$gt": above, "$lte": last };
        if last.saturating_sub(above) > self.room() || !self.small(call, &of_slots, &rest).await? {
            self.part(call, of_slots, Some(rest)).await?;
        }
        Ok(())
    }

    /// Reads a window with no more rows than are wanted, and sorts it here; false if there are more.
    async fn small(
        &mut self,
        call: &mut Call<'_>,
        of_slots: &Document,
        window: &Document,
    ) -> Result<bool, Failure> {
        let mut filter = of_slots.clone();
        filter.insert("seq", window.clone());
        let limit = self.limit().saturating_add(1);
        let (mut found, mut bytes): (Vec<(Seq, RawDocumentBuf)>, usize) = (Vec::new(), 0);
        let most = self.request.bytes.total;
        let keep = |row: &RawDocument| {
            bytes = bytes.saturating_add(row.as_bytes().len());
            found.push((Fields::new(row).seq(), row.to_owned()));
            if bytes > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let find = Find { filter, sort: None, fields: Some(doc! { "failures": 0 }), limit };
        call.each(&call.names().event, find, keep).await?;
        if bytes > most || found.len() >= limit {
            return Ok(false);
        }
        found.sort_unstable_by_key(|(seq, _)| *seq);
        for (_, row) in &found {
            if self.take(row).is_break() {
                break;
            }
        }
        Ok(true)
    }

    /// How many rows are read at most: one more than asked for tells whether there is more.
    fn limit(&self) -> usize {
        self.request.rows.saturating_add(1) - self.rows.len()
    }

    fn room(&self) -> i64 {
        i64::try_from(self.limit()).unwrap_or(i64::MAX)
    }

    /// Reads on, with these conditions.
    async fn part(
        &mut self,
        call: &mut Call<'_>,
        mut filter: Document,
        seq: Option<Document>,
    ) -> Result<(), Failure> {
        filter.extend(seq.map(|seq| ("seq".to_owned(), Bson::from(seq))));
        let limit = self.limit();
        let find =
            Find { filter, sort: Some(doc! { "seq": 1 }), fields: Some(doc! { "failures": 0 }), limit };
        call.each(&call.names().event, find, |document| self.take(document)).await
    }

    fn take(&mut self, document: &RawDocument) -> ControlFlow<()> {
        let request = self.request;
        let mut fields = Fields::new(document);
        let created_at = fields.time("created_at").unwrap_or(Timestamp::MIN);
        if !request.skip_recent.is_zero() && created_at > earlier(self.now, request.skip_recent) {
            self.end = End::Young(fields.seq());
            return ControlFlow::Break(());
        }
        if self.rows.len() >= request.rows || (request.bytes.reached_by(self.bytes) && !self.rows.is_empty())
        {
            self.end = End::Cut;
            return ControlFlow::Break(());
        }
        let row = read_within(document, WithClaim::No, &request.bytes);
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.rows.push(row);
        ControlFlow::Continue(())
    }
}
