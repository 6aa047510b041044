//! The flowcatalyst layout, where items have no sequence numbers and a claim is a status and a time.

mod lead;
mod migrate;
mod row;
mod settle;

pub(crate) use lead::{recover, take};
pub(crate) use migrate::{check, migrate};
pub(crate) use row::ITEM_BYTES;
pub(crate) use settle::settle;
