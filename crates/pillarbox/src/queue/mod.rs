//! The queue API: messages that workers claim under leases, joins of messages, and many databases.

mod database_worker;
mod databases;
mod error;
mod handle;
mod handler;
mod ids;
mod joins;
mod local_wakeup;
mod message;
mod select;
mod supervisor;
mod unhandled;
mod worker;

pub use databases::{Connect, Database, Databases, Discovery, RouteError, RouteKey};
pub use error::{JoinError, QueueError};
pub use handle::{Enqueued, Queue, SchemaDeployment, Settlement};
pub use handler::Handler;
pub use ids::{MessageId, WorkItemId};
pub use joins::{JoinBuilder, QueueJoins, Waiting};
pub(crate) use local_wakeup::LocalWakeup;
pub use message::Message;
pub use select::{DrainFirst, RoundRobin, Selection, SelectionState};
pub use tokio_util::sync::CancellationToken;
pub use worker::{Worker, WorkerBuilder};
