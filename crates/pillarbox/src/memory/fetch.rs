//! Fetching: reads pending rows in order, behind a cursor.

use jiff::Timestamp;

use super::state::State;
use super::stored::Stored;
use super::time::earlier;
use crate::model::{Lane, Row, Seq, Token};
use crate::port::{Cursor, Fetch, Fetched, Scope};

/// The reason why a read ended.
enum End {
    /// There were no more rows.
    Nothing,
    /// A limit was reached, and there were more rows.
    Cut,
    /// The next row, with this number, is younger than `skip_recent`.
    Young(i64),
}

impl State {
    pub(super) fn fetch(&self, request: &Fetch, now: Timestamp) -> Fetched {
        let (rows, cursor, end) = match &request.scope {
            Scope::Slots { slots, cursor } => {
                let cursor = &self.started(cursor);
                let ranges: Vec<_> = slots.ranges().iter().map(|(first, last)| *first..=*last).collect();
                let same = cursor.origin == self.origin;
                let from = if same { cursor.decided } else { Seq::default() };
                let found = self.index.rows(&ranges, from.0.saturating_add(1));
                let (rows, end) = self.read(found, request, now, |_| true);
                let decided = self.next(from, &rows, &end);
                (rows, Cursor { decided, waiting: Vec::new(), origin: self.origin }, end)
            }
            Scope::Group { slot, group, from } => {
                let found = self.index.rows(&[slot.0..=slot.0], from.0);
                let (rows, end) = self.read(found, request, now, |row| row.group.as_ref() == Some(group));
                (rows, Cursor { origin: self.origin, ..Cursor::default() }, end)
            }
            Scope::Due => {
                let found = self.index.rows(&[Lane::DELAYED.0..=i16::MAX], i64::MIN);
                let (rows, end) = self.read(found, request, now, |row| {
                    row.available_at <= now && !row.is_claimed(now) && !request.is_young(row, now)
                });
                (rows, Cursor::default(), end)
            }
        };
        Fetched { rows, cursor, more: matches!(end, End::Cut), now }
    }

    fn read(
        &self,
        found: impl Iterator<Item = i64>,
        request: &Fetch,
        now: Timestamp,
        wanted: impl Fn(&Stored) -> bool,
    ) -> (Vec<Row>, End) {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for seq in found {
            let row = &self.rows[&seq];
            if !wanted(row) {
                continue;
            }
            if request.is_young(row, now) {
                return (rows, End::Young(seq));
            }
            if rows.len() == request.rows || (request.bytes.reached_by(bytes) && !rows.is_empty()) {
                return (rows, End::Cut);
            }
            let row = row.to_row(seq, Token::default(), &request.bytes);
            bytes += row.bytes;
            rows.push(row);
        }
        (rows, End::Nothing)
    }

    /// Returns the cursor to read from. A cursor beyond the last number stems from numbers that were lost, so
    /// reading starts from the beginning.
    fn started(&self, given: &Cursor) -> Cursor {
        if given.decided.0 > self.last { Cursor::default() } else { given.clone() }
    }

    /// The next cursor position. It never passes a number that an open transaction may still commit, or the
    /// row would be skipped.
    fn next(&self, from: Seq, rows: &[Row], end: &End) -> Seq {
        let committed = self.decided();
        let seen = match end {
            End::Nothing => committed,
            End::Cut => rows.last().map_or(0, |row| row.seq.0),
            End::Young(seq) => seq - 1,
        };
        from.max(Seq(seen.min(committed)))
    }
}

impl Fetch {
    fn is_young(&self, row: &Stored, now: Timestamp) -> bool {
        !self.skip_recent.is_zero() && row.created_at > earlier(now, self.skip_recent)
    }
}
