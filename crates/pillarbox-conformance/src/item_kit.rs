//! Short ways to say what cases do with items: node 1 leads, takes them and settles them.

use pillarbox::model::{Event, EventBuilder, NewRow, Placement, Row};
use pillarbox::port::{ByteLimits, Change, Fence, Order, Recover, StoreError, Take};

use crate::harness::{Fixture, ItemRow};
use crate::kit::*;

/// A TSID for a number.
pub(crate) fn tsid(number: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |shift: usize| char::from(DIGITS[number >> shift & 31]);
    format!("0HZXEQ5Y8J{}{}{}", digit(10), digit(5), digit(0))
}

pub(crate) fn item(number: usize) -> EventBuilder {
    Event::text("EVENT", "{}").id(tsid(number))
}

pub(crate) fn row(builder: EventBuilder) -> NewRow {
    NewRow { event: builder.build().expect("a valid event"), placement: Placement::Slot }
}

pub(crate) async fn look(t: &Fixture, number: usize) -> Result<ItemRow, StoreError> {
    let found = t.foreign.look(&tsid(number)).await?;
    Ok(found.unwrap_or_else(|| panic!("item {number} is gone")))
}

/// A take of everything.
pub(crate) fn take(number: u128, now: i64) -> Take {
    Take {
        node: node(number),
        after: None,
        except: Vec::new(),
        rows: MANY,
        bytes: ByteLimits::NONE,
        each: MANY,
        ungrouped: MANY,
        ungrouped_order: Order::PerGroup,
        now: Some(at(now)),
    }
}

pub(crate) fn recover(number: u128, older_than: u64, now: i64) -> Recover {
    Recover {
        node: node(number),
        older_than: secs(older_than),
        except: Vec::new(),
        rows: MANY,
        now: Some(at(now)),
    }
}

/// The rows of a take by a node that must lead.
pub(crate) async fn taken(t: &Fixture, request: Take) -> Result<Vec<Row>, StoreError> {
    let taken = t.items().take(request).await?;
    assert!(taken.leads, "the node leads");
    Ok(taken.rows)
}

/// Takes everything as node 1, which must lead.
pub(crate) async fn take_all(t: &Fixture, now: i64) -> Result<Vec<Row>, StoreError> {
    taken(t, take(1, now)).await
}

/// The numbers of the rows.
pub(crate) fn numbers(rows: &[Row]) -> Vec<usize> {
    let number = |row: &Row| (0..2_000).find(|number| tsid(*number) == row.id.as_str());
    rows.iter().map(|row| number(row).expect("an item of the case")).collect()
}

/// Writes an item, and takes it as node 1, which joins.
pub(crate) async fn written_and_taken(t: &Fixture, number: usize, now: i64) -> Result<Row, StoreError> {
    t.join(1, at(0)).await?;
    t.write(vec![row(item(number))], at(0)).await?;
    Ok(take_all(t, now).await?.remove(0))
}

/// Settles one outcome as node 1; whether it changed the row.
pub(crate) async fn settle_one(t: &Fixture, row: &Row, change: Change, now: i64) -> Result<bool, StoreError> {
    let settled = t.settle(Fence::Node(node(1)), vec![outcome(row, change)], at(now)).await?;
    Ok(settled.stale.is_empty())
}
