//! The flowcatalyst layout: what is done differently where documents have no numbers and a claim is a status and a time.

mod claim;
mod insert;
mod inspect;
mod item;
mod lead;
mod migrate;
mod operate;
mod settle;

pub(crate) use claim::{claim, fetch, reap, waiting};
pub(crate) use insert::insert_rows;
pub(crate) use inspect::{count, list, show, stats};
pub(crate) use lead::{recover, take};
pub(crate) use migrate::{check, migrate, script};
pub(crate) use operate::{cancel, discard, purge, replay, revive};
pub(crate) use settle::settle;
