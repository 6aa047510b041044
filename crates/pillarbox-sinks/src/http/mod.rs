//! The batch sink: posts a batch of events in one request, as a JSON array.

mod element;
mod items;
mod request;
mod sink;
mod words;

pub use element::{DISPATCH_JOBS_PATH, EVENTS_PATH};
pub use sink::BatchSink;
