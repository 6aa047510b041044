//! The flowcatalyst layout: what is done differently where rows have no numbers and a claim is a status and a time.

mod claim;
mod insert;
mod lead;
mod migrate;
mod row;
mod settle;
mod time;

pub(crate) use claim::{claim, fetch, reap};
pub(crate) use insert::insert_rows;
pub(crate) use migrate::{check, migrate};
pub(crate) use row::{ItemValues, LEFT_OUT};
pub(crate) use settle::settle;
pub(crate) use time::{stored, text};
