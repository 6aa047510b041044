//! Reading pending rows in order, and the cursor of the next read.

use std::ops::ControlFlow;

use jiff::Timestamp;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use pillarbox::model::{Row, Seq, SlotSet, WithClaim};
use pillarbox::port::{Cursor, Fetch, Fetched, Scope};

use crate::adopt::adopted;
use crate::call::{Call, Find};
use crate::document::{pending, unclaimed};
use crate::error::DriverError;
use crate::number::Head;
use crate::row::{Fields, read_within};
use crate::time::{cut, earlier, us};

/// Why a read ended.
enum End {
    /// All matching rows were read.
    Nothing,
    /// A limit was reached, and more rows match.
    Cut,
    /// The next row, with this number, is younger than `skip_recent`.
    Young(Seq),
}

/// Each window of numbers is this many times wider than the one before. The first has room for all requested
/// rows.
///
/// Reading in windows limits the cost on servers that sort all matching rows before they return the first.
const WIDER: i64 = 8;
const SMALLEST_WINDOW: i64 = 100;

/// One read in progress.
struct Read<'a> {
    request: &'a Fetch,
    now: Timestamp,
    rows: Vec<Row>,
    bytes: usize,
    end: End,
}

pub(crate) async fn fetch(call: &mut Call<'_>, request: &Fetch) -> Result<Fetched, DriverError> {
    // The counter is read before the rows, so the read sees every row up to `vouched`. It ends at `last`: a
    // later row must not be returned before a row with a lower number that was committed after its window was
    // read.
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

/// Resets a cursor that is beyond the last number. Such a cursor is stale: a rollback after a failover, or a
/// restore, has set the counter back.
fn started(given: &Cursor, last: i64) -> Cursor {
    if given.decided.0 > last { Cursor::default() } else { given.clone() }
}

/// The cursor of the next read. It never passes a number whose row may still appear, and never moves back.
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

/// Slots as a filter, as one range if they are contiguous. Negative lanes, which contain delayed and queued
/// rows, are left out.
pub(crate) fn slots_filter(slots: &SlotSet) -> Option<Bson> {
    match slots.delivered_ranges().as_slice() {
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

    /// Reads the rows of slots above a number, up to the last number, in windows.
    ///
    /// Above `vouched` there is only one window. Rows of one transaction have adjacent numbers, and a commit
    /// between the reads of two windows would show the rows of the second without those of the first.
    async fn slots(
        &mut self,
        call: &mut Call<'_>,
        slots: &Bson,
        mut above: i64,
        head: &Head,
    ) -> Result<(), DriverError> {
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

    /// Reads a window without a sort on the server, and sorts the rows here. Returns false, with nothing
    /// kept, if the window has more rows or bytes than requested.
    async fn small(
        &mut self,
        call: &mut Call<'_>,
        of_slots: &Document,
        window: &Document,
    ) -> Result<bool, DriverError> {
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

    /// The number of rows to read: one more than requested shows whether there are more.
    fn limit(&self) -> usize {
        self.request.rows.saturating_add(1) - self.rows.len()
    }

    fn room(&self) -> i64 {
        i64::try_from(self.limit()).unwrap_or(i64::MAX)
    }

    /// Reads further rows that match the filter, sorted by the server.
    async fn part(
        &mut self,
        call: &mut Call<'_>,
        mut filter: Document,
        seq: Option<Document>,
    ) -> Result<(), DriverError> {
        filter.extend(seq.map(|seq| ("seq".to_owned(), Bson::from(seq))));
        let limit = self.limit();
        let find =
            Find { filter, sort: Some(doc! { "seq": 1 }), fields: Some(doc! { "failures": 0 }), limit };
        call.each(&call.names().event, find, |document| self.take(document)).await
    }

    fn take(&mut self, document: &RawDocument) -> ControlFlow<()> {
        let request = self.request;
        if !request.skip_recent.is_zero() {
            let mut fields = Fields::new(document);
            let created_at = fields.time("created_at").unwrap_or(Timestamp::MIN);
            if created_at > earlier(self.now, request.skip_recent) {
                self.end = End::Young(fields.seq());
                return ControlFlow::Break(());
            }
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
