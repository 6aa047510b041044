//! The one suite every store passes.
//!
//! A store brings a [`Harness`] that makes empty outboxes; [`cases`] lists what it must do and [`run`] tries one of
//! them. Cases work through the ports alone and pass the time in, so nothing sleeps. Which cases apply follows from
//! the kind of table and the store's facts; one that does not apply says so, it never counts as passed.
//!
//! ```
//! use pillarbox_conformance::{CaseOutcome, Harness, cases, run};
//!
//! async fn failures(harness: &dyn Harness) -> Vec<String> {
//!     let mut failures = Vec::new();
//!     for case in cases() {
//!         if let CaseOutcome::Failed(how) = run(&case, harness).await {
//!             failures.push(format!("{case:?}: {how}"));
//!         }
//!     }
//!     failures
//! }
//! ```

mod adapt;
mod case;
mod harness;
mod item_kit;
mod kit;
mod native_rights;
mod requests;
mod rights;
mod topics;

pub use adapt::{OnBegin, OnTransact};
pub use case::{Case, CaseOutcome, Need, run};
pub use harness::{
    Ending, Fixture, Foreign, ForeignRow, Harness, ITEM_TABLES, ItemRow, Later, OpenTransaction, Planted,
    Transactions, Unlock, Work, WorkInTransaction, Worked, items, native,
};
pub use native_rights::{
    FORBIDDEN_TO_WRITERS, deliver_native, grants_of, operate, sql_of, work_queue, write_native,
};
pub use requests::{
    account_insert, account_row, attach, change_join, claim_messages, complete, fetch_all, join_status,
    message, node, outcome, owner, register, settle, start_waiting, within,
};
pub use rights::{fill_items, relay_items};

/// All cases, by topic.
#[must_use]
pub fn cases() -> Vec<Case> {
    topics::all()
}
