//! The webhook sink: one event, one signed request.

mod signature;
mod sink;

pub use sink::WebhookSink;
