//! The memory store: a real store for one process, and the reference that every other store is held to.
//!
//! It is small on purpose. What a store does is said in `docs/reference/store-port.md`; here it is said in code.

mod admin;
mod claim;
mod clock;
mod fetch;
mod groups;
mod hash;
mod index;
mod inspect;
mod joins;
mod lead;
mod nodes;
mod operate;
mod options;
mod promote;
mod settle;
mod state;
mod store;
mod stored;
mod time;
mod transaction;
mod write;

#[cfg(test)]
mod tests;

pub use clock::MemoryClock;
pub use options::MemoryOptions;
pub use store::{MemoryStore, Unreadable};
pub use transaction::MemoryTransaction;
