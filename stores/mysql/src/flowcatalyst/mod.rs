//! The flowcatalyst layout: what is done differently where rows have no numbers and a claim is a status and a time.

mod claim;
mod insert;
mod inspect;
mod lead;
mod migrate;
mod operate;
mod row;
mod settle;

pub(crate) use claim::{claim, fetch, locking};
pub(crate) use insert::{insert_rows, insert_sql};
pub(crate) use inspect::{count, list, show};
pub(crate) use lead::{reap, recover, take};
pub(crate) use migrate::{check, migrate};
pub(crate) use operate::{cancel, discard, purge, replay};
pub(crate) use row::LEFT_OUT;
pub(crate) use settle::settle;

/// The longest text that the column of payloads holds, in bytes.
pub(crate) const PAYLOAD_MAX: usize = 65_535;
