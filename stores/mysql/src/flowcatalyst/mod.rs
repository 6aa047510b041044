//! The flowcatalyst layout: its rows have no sequence numbers, and a claim is a status and a time.

mod claim;
mod insert;
mod inspect;
mod lead;
mod migrate;
mod operate;
mod row;
mod settle;

pub(crate) use claim::locking;
pub(crate) use insert::{insert, insert_sql};
pub(crate) use inspect::selection;
pub(crate) use lead::{recover, take};
pub(crate) use migrate::{bring_up, check};
pub(crate) use operate::purge;
pub(crate) use row::LEFT_OUT;
pub(crate) use settle::settle;

/// The longest text that the payload column can store, in bytes.
pub(crate) const PAYLOAD_MAX: usize = 65_535;
