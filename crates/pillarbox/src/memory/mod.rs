//! The memory store: a store for one process, and the reference implementation of the store port.
//!
//! It is deliberately small: `docs/reference/store-port.md` specifies a store, and this module is
//! the same specification in code.

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
