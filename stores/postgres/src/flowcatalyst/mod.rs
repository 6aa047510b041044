//! The flowcatalyst layout: what is done differently where rows have no numbers and a claim is a status and a time.

mod claim;
mod lead;
mod migrate;
mod row;
mod settle;

pub(crate) use claim::{claim, fetch};
pub(crate) use lead::{recover, take};
pub(crate) use migrate::{Tables, check, migrate};
pub(crate) use row::{COLUMNS, HEAVY, ITEM_BYTES, LEFT_OUT, LIGHT_COLUMNS, read_record};
pub(crate) use settle::settle;
