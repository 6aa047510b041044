//! The differences between the native collection and a collection of items.

use jiff::Timestamp;
use pillarbox::model::{EventId, NewRow, NodeId, Record, Seq, Slot, SlotSet, Written};
use pillarbox::port::{
    Cancel, Discard, JoinChange, JoinChanged, List, Native, PendingRows, Purge, Replay, Select, Settle,
    Settled, Shown, Stats, TableKind,
};

use crate::call::Call;
use crate::done::Caution;
use crate::outbox::{Names, Work};
use crate::{groups, insert, inspect, joins, membership, migrate, number, operate, settle};

/// Implements operations of a [`Kind`] by functions that take the call and the same arguments.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $function:path;)+) => {$(
        fn $name<'c>(call: &'c mut Call<'_>, $($argument: $type),*) -> Work<'c, $answer> {
            Box::pin($function(call, $($argument),*))
        }
    )+};
}
pub(crate) use forward;

/// A kind of collection, with the operations that differ between kinds.
pub(crate) trait Kind: TableKind {
    /// Whether rows have sequence numbers. Without them the counter never moves.
    const NUMBERED: bool;

    /// The part of the `mongosh` script that creates the collection itself.
    fn script(names: &Names) -> String;
    /// Creates the collection and its indexes if they are missing.
    fn make<'c>(call: &'c mut Call<'_>) -> Work<'c, ()>;
    /// Fails if the collections are missing, incomplete or of a newer version.
    fn check<'c>(call: &'c mut Call<'_>) -> Work<'c, ()>;

    /// The current time of the database.
    fn now<'c>(call: &'c mut Call<'_>) -> Work<'c, Timestamp>;
    /// Inserts all rows or none.
    fn insert<'c>(
        call: &'c mut Call<'_>,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>>;
    /// Applies outcomes if the fence holds.
    fn settle<'c>(call: &'c mut Call<'_>, request: &'c Settle, caution: Caution) -> Work<'c, Settled>;
    /// Changes a join, if the kind has joins.
    fn change_join<'c>(call: &'c mut Call<'_>, request: &'c JoinChange) -> Work<'c, JoinChanged>;

    /// The key of the fence document of a node's takes, if a leader takes rows of this kind.
    fn lead_key(node: NodeId) -> Option<String>;
    /// The highest pending number, where rows have numbers. It limits a quarantine: an evicted node cannot
    /// have read later rows.
    fn pending_upto<'c>(call: &'c mut Call<'_>) -> Work<'c, Option<Seq>>;
    /// Lanes with pending rows.
    fn lanes_in_use<'c>(call: &'c mut Call<'_>) -> Work<'c, Vec<Slot>>;
    /// The state of pending rows in these slots: the oldest, whether any is above `after`, and the next due
    /// time.
    fn waiting<'c>(call: &'c mut Call<'_>, held: &'c SlotSet, after: Seq) -> Work<'c, PendingRows>;

    /// Reads one page of rows.
    fn list<'c>(call: &'c mut Call<'_>, request: &'c List) -> Work<'c, Vec<Record>>;
    /// Reads one row and its failed attempts.
    fn show<'c>(call: &'c mut Call<'_>, id: &'c EventId) -> Work<'c, Option<Shown>>;
    /// Counts the rows of a selection.
    fn count<'c>(call: &'c mut Call<'_>, select: &'c Select) -> Work<'c, u64>;
    /// Counts and ages for operators.
    fn stats<'c>(call: &'c mut Call<'_>) -> Work<'c, Stats>;

    /// Makes dead rows pending again.
    fn replay<'c>(call: &'c mut Call<'_>, request: &'c Replay) -> Work<'c, u64>;
    /// Deletes dead rows.
    fn discard<'c>(call: &'c mut Call<'_>, request: &'c Discard) -> Work<'c, u64>;
    /// Deletes pending rows. Also runs in a caller's own transaction.
    fn cancel<'c>(call: &'c mut Call<'_>, request: &'c Cancel) -> Work<'c, Vec<EventId>>;
    /// Deletes rows older than the request's limit.
    fn purge<'c>(call: &'c mut Call<'_>, request: &'c Purge) -> Work<'c, u64>;
    /// Makes one dead row pending again in its place in the order. Returns how many rows changed.
    fn revive<'c>(call: &'c mut Call<'_>, id: &'c EventId, now: Timestamp) -> Work<'c, u64>;
}

impl Kind for Native {
    const NUMBERED: bool = true;

    fn script(names: &Names) -> String {
        migrate::script_events(names)
    }

    fn now<'c>(call: &'c mut Call<'_>) -> Work<'c, Timestamp> {
        Box::pin(async { Ok(number::head(call).await?.now) })
    }

    fn insert<'c>(
        call: &'c mut Call<'_>,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>> {
        Box::pin(insert::insert_rows(call, rows, now))
    }

    fn lead_key(_: NodeId) -> Option<String> {
        None
    }

    forward! {
        make() -> () = migrate::make_events;
        check() -> () = migrate::check;
        settle(request: &'c Settle, caution: Caution) -> Settled = settle::settle;
        change_join(request: &'c JoinChange) -> JoinChanged = joins::change;
        pending_upto() -> Option<Seq> = membership::pending_upto;
        lanes_in_use() -> Vec<Slot> = membership::lanes_in_use;
        waiting(held: &'c SlotSet, after: Seq) -> PendingRows = membership::waiting;
        list(request: &'c List) -> Vec<Record> = inspect::list;
        show(id: &'c EventId) -> Option<Shown> = inspect::show;
        count(select: &'c Select) -> u64 = inspect::count;
        stats() -> Stats = inspect::stats;
        replay(request: &'c Replay) -> u64 = operate::replay;
        discard(request: &'c Discard) -> u64 = operate::discard;
        cancel(request: &'c Cancel) -> Vec<EventId> = operate::cancel;
        purge(request: &'c Purge) -> u64 = operate::purge;
        revive(id: &'c EventId, now: Timestamp) -> u64 = groups::revive;
    }
}
