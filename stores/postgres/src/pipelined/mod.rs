//! Writing with tokio-postgres: on transactions of the caller's, and pipelined on transactions begun here.

mod bind;
mod call;
mod flight;
mod store;
mod transaction;
mod write;

pub use store::{PipelinedItemStore, PipelinedStore, PipelinedTable};
pub use transaction::PipelinedTransaction;
