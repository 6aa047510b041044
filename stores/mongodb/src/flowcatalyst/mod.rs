//! The flowcatalyst layout: documents without sequence numbers, whose claim is a status and a time.

mod insert;
mod inspect;
mod item;
mod lead;
mod mark;
mod migrate;
mod operate;
mod settle;

use jiff::Timestamp;
use pillarbox::model::{EventId, NewRow, NodeId, Record, Seq, Slot, SlotSet, Written};
use pillarbox::port::{
    Cancel, Discard, ErrorKind, Items, JoinChange, JoinChanged, List, PendingRows, Purge, Replay, Select,
    Settle, Settled, Shown, Stats,
};

use crate::call::Call;
use crate::done::Caution;
use crate::error::DriverError;
use crate::kind::Kind;
use crate::membership;
use crate::outbox::{Names, Work};

pub(crate) use lead::{recover, take};

impl Kind for Items {
    const NUMBERED: bool = false;

    fn script(names: &Names) -> String {
        migrate::script_items(names)
    }

    fn make<'c>(call: &'c mut Call<'_>) -> Work<'c, ()> {
        Box::pin(migrate::make_items(call))
    }

    fn check<'c>(call: &'c mut Call<'_>) -> Work<'c, ()> {
        Box::pin(migrate::check(call))
    }

    fn now<'c>(call: &'c mut Call<'_>) -> Work<'c, Timestamp> {
        Box::pin(item::now(call, None))
    }

    fn insert<'c>(
        call: &'c mut Call<'_>,
        rows: &'c [NewRow],
        now: Option<Timestamp>,
    ) -> Work<'c, Vec<Written>> {
        Box::pin(insert::insert_rows(call, rows, now))
    }

    /// Settling items always checks them first, so the caution does not matter.
    fn settle<'c>(call: &'c mut Call<'_>, request: &'c Settle, _: Caution) -> Work<'c, Settled> {
        Box::pin(settle::settle(call, request))
    }

    fn change_join<'c>(_: &'c mut Call<'_>, _: &'c JoinChange) -> Work<'c, JoinChanged> {
        let detail = "the layout flowcatalyst has no joins";
        Box::pin(async { Err(DriverError::Refused(ErrorKind::Unsupported, detail.to_owned())) })
    }

    fn lead_key(node: NodeId) -> Option<String> {
        Some(membership::lead_key(node))
    }

    fn pending_upto<'c>(_: &'c mut Call<'_>) -> Work<'c, Option<Seq>> {
        Box::pin(async { Ok(None) })
    }

    fn lanes_in_use<'c>(_: &'c mut Call<'_>) -> Work<'c, Vec<Slot>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn waiting<'c>(call: &'c mut Call<'_>, held: &'c SlotSet, _: Seq) -> Work<'c, PendingRows> {
        Box::pin(lead::waiting(call, held))
    }

    fn list<'c>(call: &'c mut Call<'_>, request: &'c List) -> Work<'c, Vec<Record>> {
        Box::pin(inspect::list(call, request))
    }

    fn show<'c>(call: &'c mut Call<'_>, id: &'c EventId) -> Work<'c, Option<Shown>> {
        Box::pin(inspect::show(call, id))
    }

    fn count<'c>(call: &'c mut Call<'_>, select: &'c Select) -> Work<'c, u64> {
        Box::pin(inspect::count(call, select))
    }

    fn stats<'c>(call: &'c mut Call<'_>) -> Work<'c, Stats> {
        Box::pin(inspect::stats(call))
    }

    fn replay<'c>(call: &'c mut Call<'_>, request: &'c Replay) -> Work<'c, u64> {
        Box::pin(operate::replay(call, request))
    }

    fn discard<'c>(call: &'c mut Call<'_>, request: &'c Discard) -> Work<'c, u64> {
        Box::pin(operate::discard(call, request))
    }

    fn cancel<'c>(call: &'c mut Call<'_>, request: &'c Cancel) -> Work<'c, Vec<EventId>> {
        Box::pin(operate::cancel(call, request))
    }

    fn purge<'c>(call: &'c mut Call<'_>, request: &'c Purge) -> Work<'c, u64> {
        Box::pin(operate::purge(call, request))
    }

    fn revive<'c>(call: &'c mut Call<'_>, id: &'c EventId, _: Timestamp) -> Work<'c, u64> {
        Box::pin(operate::revive(call, id))
    }
}
