//! The batch sink: posts a batch of events in one request, as a JSON array.

mod items;
mod part;
mod request;
mod sink;
mod words;

pub use part::{DISPATCH_JOBS_PATH, EVENTS_PATH};
pub use sink::BatchSink;
