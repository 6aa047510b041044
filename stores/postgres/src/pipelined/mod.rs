//! Writes with tokio-postgres: in the caller's transactions, and pipelined in transactions begun here.

mod bind;
mod call;
mod commit;
mod store;
mod transaction;
mod write;

pub use store::{PipelinedItemStore, PipelinedStore, PipelinedTable};
pub use transaction::PipelinedTransaction;
