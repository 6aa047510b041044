//! The flowcatalyst layout: its rows have no sequence numbers, and a claim is a status and a time.

mod insert;
mod lead;
mod migrate;
mod row;
mod settle;
mod time;

pub(crate) use insert::insert;
pub(crate) use migrate::{check, migrate};
pub(crate) use row::{ItemValues, LEFT_OUT};
pub(crate) use settle::apply;
pub(crate) use time::{stored, text};
