//! The batch sink: events of one group in one request, as a JSON array.

mod items;
mod part;
mod request;
mod sink;
mod words;

pub use sink::BatchSink;
