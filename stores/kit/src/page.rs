//! Reads rows within limits, and puts large contents in place once they are loaded.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use jiff::Timestamp;
use pillarbox::model::flowcatalyst::Item;
use pillarbox::model::{Column, Row, RowDecoder, Seq, Values, WithClaim};
use pillarbox::port::{ByteLimits, Fetch};

/// A row or an item whose contents may have been left out.
#[derive(Debug)]
pub enum Light<T> {
    /// Nothing to load: it is complete, or set aside as too large.
    Whole(T),
    /// Its contents must still be loaded.
    Large(T),
}

impl<T> Light<T> {
    /// Borrows the row or item.
    pub const fn get(&self) -> &T {
        match self {
            Self::Whole(read) | Self::Large(read) => read,
        }
    }

    /// Returns the row or item.
    pub fn into_inner(self) -> T {
        match self {
            Self::Whole(read) | Self::Large(read) => read,
        }
    }
}

/// Decodes a row. A row of more bytes than `limits.row` is set aside.
pub fn read_row(
    decoder: &RowDecoder,
    values: &impl Values,
    claimed: WithClaim,
    limits: &ByteLimits,
) -> Light<Row> {
    let row = decoder.row(values, claimed);
    match decoder.left_out(values) {
        Some(bytes) if bytes <= limits.row => Light::Large(Row { bytes, ..row }),
        left_out => Light::Whole(match left_out.unwrap_or(row.bytes) {
            bytes if bytes > limits.row => row.set_aside(bytes, limits.row),
            _ => row,
        }),
    }
}

/// Decodes an item. An item of more bytes than `limits.row` is set aside.
pub fn read_item(decoder: &RowDecoder, values: &impl Values, limits: &ByteLimits) -> Light<Item> {
    let mut item = decoder.item(values);
    match decoder.item_left_out(values, &item) {
        Some(bytes) if bytes <= limits.row => Light::Large(Item { bytes, ..item }),
        left_out => {
            let bytes = left_out.unwrap_or(item.bytes);
            if bytes > limits.row {
                item.set_aside(bytes, limits.row);
            }
            Light::Whole(item)
        }
    }
}

/// Replaces the rows whose contents were left out with the loaded ones. Drops rows that no longer exist.
pub fn put_in_place(rows: &mut Vec<Row>, large: &[i64], loaded: impl Iterator<Item = Row>) {
    let mut loaded: HashMap<i64, Row> = loaded.map(|row| (row.seq.0, row)).collect();
    let large: HashSet<i64> = large.iter().copied().collect();
    rows.retain_mut(|row| match large.contains(&row.seq.0) {
        true => loaded.remove(&row.seq.0).map(|whole| *row = whole).is_some(),
        false => true,
    });
}

/// Why a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// There were no more rows.
    Nothing,
    /// A limit was reached, and more rows followed.
    Cut,
    /// The next row, with this sequence number, is too young.
    Young(Seq),
}

/// The rows of one read.
#[derive(Debug)]
pub struct Page<'a> {
    request: &'a Fetch,
    bytes: usize,
    /// The rows read so far, in order.
    pub rows: Vec<Row>,
    /// Why the read has ended.
    pub end: End,
    /// The sequence numbers of rows whose contents must still be loaded, ascending.
    pub large: Vec<i64>,
}

impl<'a> Page<'a> {
    /// An empty page for this request.
    #[must_use]
    pub fn new(request: &'a Fetch) -> Self {
        let rows = Vec::with_capacity(request.rows.min(1_024));
        Self { request, bytes: 0, rows, end: End::Nothing, large: Vec::new() }
    }

    /// Adds a row. Ends the read instead if the row is too young by the database's clock, or
    /// if a limit is reached.
    pub fn admit(&mut self, decoder: &RowDecoder, values: &impl Values, now: Timestamp) -> ControlFlow<()> {
        let Fetch { rows, bytes: limits, skip_recent, .. } = self.request;
        if !skip_recent.is_zero() {
            let youngest = now.saturating_sub(*skip_recent).unwrap_or(Timestamp::MIN);
            if decoder.time(values, Column::CreatedAt).is_some_and(|created_at| created_at > youngest) {
                let seq = decoder.number(values, Column::Seq).unwrap_or_default();
                self.end = End::Young(Seq(seq));
                return ControlFlow::Break(());
            }
        }
        // The first row is admitted whatever its size, so that every read makes progress.
        if self.rows.len() >= *rows || (limits.reached_by(self.bytes) && !self.rows.is_empty()) {
            self.end = End::Cut;
            return ControlFlow::Break(());
        }
        let read = read_row(decoder, values, WithClaim::No, limits);
        if let Light::Large(row) = &read {
            self.large.push(row.seq.0);
        }
        let row = read.into_inner();
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.rows.push(row);
        ControlFlow::Continue(())
    }
}
