//! The ports: the interfaces of stores and sinks, without driver types and SQL.

mod admin;
mod cause;
mod claim;
mod error;
mod facts;
mod fetch;
mod heartbeat;
mod items;
mod join;
mod metrics;
mod settle;
mod sink;
mod store;
mod table;
mod write;

pub use admin::{
    Admin, AuditEntry, Cancel, Contents, Discard, GroupAction, GroupChange, GroupState, HeldGroup,
    HeldGroups, Lacking, List, Migrated, NodeInfo, OpenTransactions, PageOrder, Purge, PurgeStatus, Replay,
    Select, Shown, Stats, StatusCounts, TransactionInfo, TypeCount,
};
pub use cause::Cause;
pub use claim::{Claim, ClaimFrom, DueTopics, Reap};
pub use error::{ErrorKind, StoreError};
pub use facts::Facts;
pub use fetch::{ByteLimits, Cursor, Fetch, Fetched, Horizon, Scope};
pub use heartbeat::{
    GroupStates, Heartbeat, HeldSlot, Membership, PendingRows, Promote, Promoted, Quarantine, ReadScope,
    Register,
};
pub use items::{ItemStore, Recover, Take, Taken};
pub use join::{JoinAction, JoinChange, JoinChanged, JoinShown, Joins, ListJoins};
pub use metrics::{MetricsExporter, NoMetrics};
pub use settle::{Change, Counts, Fence, OnDone, Outcome, Settle, Settled, Wait};
pub use sink::{Claimed, Delivery, DeliveryPath, Handed, Sink, Verdict};
pub use store::Store;
pub use table::{AnyTable, Items, Native, Order, StoreFuture, Table, TableKind, Wakeups, Write};
pub use write::{
    Begin, BlockingWriteOn, Body, CommitError, Insert, Transact, TransactError, WriteOn, WriteSql,
};
