//! The events API: write events in a transaction, receive them with listeners.

mod blocking;
mod buffer;
mod builder;
mod config;
mod context;
mod dead;
mod deliver;
mod dispatcher;
mod dispatcher_hook;
mod error;
mod failure;
mod hook;
mod in_flight;
pub mod interceptor;
#[cfg(feature = "tower")]
mod layer;
mod listener;
mod metrics;
mod outbox;
mod poller;
mod purge;
mod receipt;
mod registry;
pub mod trace;
mod transaction;
mod writer;

pub use blocking::BlockingTransaction;
pub use buffer::Callback;
pub use builder::OutboxBuilder;
pub use config::OutboxConfig;
pub use context::{Current, ScopeError, TaskContext, TransactionContext};
pub use dead::{DeadEvents, DeadFilter};
pub(crate) use deliver::ListenerSink;
pub use dispatcher::{Dispatcher, DispatcherBuilder};
pub use dispatcher_hook::DispatcherWriterHook;
pub use error::{SettingError, StartError, WriteError};
pub use failure::Failure;
pub use hook::WriterHook;
pub use in_flight::{InFlightSet, InFlightTracker};
pub use interceptor::Interceptor;
#[cfg(feature = "tower")]
pub use layer::{TransactionLayer, TransactionService};
pub use listener::Listener;
pub use metrics::FacadeMetrics;
pub use outbox::Outbox;
pub use poller::{ClaimLocking, PollHandler, Polled, Poller, PollerSettings};
pub(crate) use purge::run_in_turn;
pub use purge::{EventPurger, PurgeSettings, Purger};
pub use receipt::Receipt;
pub use registry::{AlreadyRegistered, Found, ListenerRegistry, Listeners};
pub use trace::{TaskTrace, TraceSource};
pub use transaction::Transaction;
pub use writer::Writer;
