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
use crate::kind::{Kind, forward};
use crate::membership;
use crate::outbox::{Names, Work};

pub(crate) use lead::{recover, take};

impl Kind for Items {
    const NUMBERED: bool = false;

    fn script(names: &Names) -> String {
        migrate::script_items(names)
    }

    fn now<'c>(call: &'c mut Call<'_>) -> Work<'c, Timestamp> {
        Box::pin(item::now(call, None))
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

    fn revive<'c>(call: &'c mut Call<'_>, id: &'c EventId, _: Timestamp) -> Work<'c, u64> {
        Box::pin(operate::revive(call, id))
    }

    forward! {
        make() -> () = migrate::make_items;
        check() -> () = migrate::check;
        insert(rows: &'c [NewRow], now: Option<Timestamp>) -> Vec<Written> = insert::insert_rows;
        list(request: &'c List) -> Vec<Record> = inspect::list;
        show(id: &'c EventId) -> Option<Shown> = inspect::show;
        count(select: &'c Select) -> u64 = inspect::count;
        stats() -> Stats = inspect::stats;
        replay(request: &'c Replay) -> u64 = operate::replay;
        discard(request: &'c Discard) -> u64 = operate::discard;
        cancel(request: &'c Cancel) -> Vec<EventId> = operate::cancel;
        purge(request: &'c Purge) -> u64 = operate::purge;
    }
}
