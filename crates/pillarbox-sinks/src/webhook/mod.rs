//! The webhook sink: one signed request per event.

mod signature;
mod sink;

pub use sink::WebhookSink;
