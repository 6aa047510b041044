//! The cases, a file for each topic.

use crate::case::Case;

mod blocked;
mod bytes;
mod claim;
mod concurrency;
mod dead;
mod fence;
mod fetch;
mod flowcatalyst;
mod flowcatalyst_operators;
mod foreign;
mod groups;
mod inspect;
mod join_ends;
mod joins;
mod lead;
mod lease;
mod locked;
mod migrate;
mod order;
mod placement;
mod promote;
mod purge;
mod quarantine;
mod queue;
mod repeated;
mod reused;
mod scopes;
mod settle;
mod share;
mod transaction;
mod write;

/// The cases of every topic.
pub(crate) fn all() -> Vec<Case> {
    [
        write::cases(),
        transaction::cases(),
        placement::cases(),
        fetch::cases(),
        scopes::cases(),
        order::cases(),
        claim::cases(),
        bytes::cases(),
        settle::cases(),
        fence::cases(),
        repeated::cases(),
        reused::cases(),
        locked::cases(),
        blocked::cases(),
        lease::cases(),
        queue::cases(),
        joins::cases(),
        join_ends::cases(),
        share::cases(),
        quarantine::cases(),
        promote::cases(),
        purge::cases(),
        dead::cases(),
        groups::cases(),
        inspect::cases(),
        foreign::cases(),
        migrate::cases(),
        concurrency::cases(),
        flowcatalyst::cases(),
        flowcatalyst_operators::cases(),
        lead::cases(),
    ]
    .concat()
}
