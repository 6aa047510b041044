//! Where events go: HTTP batch endpoints, webhooks, brokers, standard output. A feature each.
//!
//! Every one is a [`pillarbox::port::Sink`], for the relay and for an outbox in process alike. [`open`] makes one from a URL.
//!
#![cfg_attr(feature = "stdout", doc = include_str!("in_process.md"))]

mod carried;
mod egress;
mod envelope;
mod error;
#[cfg(feature = "http")]
mod http;
mod open;
mod options;
mod secret;
#[cfg(feature = "stdout")]
mod stdout;
mod template;
#[cfg(feature = "webhook")]
mod webhook;
#[cfg(any(feature = "http", feature = "webhook"))]
mod wire;

#[cfg(feature = "http")]
pub use self::http::BatchSink;
pub use egress::{Blocked, Egress};
pub use envelope::{Binding, Encoded, Envelope, Format};
pub use error::SinkError;
pub use open::open;
pub use options::{Answers, Compression, Http2, SinkOptions};
pub use secret::{Secret, TokenSource};
#[cfg(feature = "stdout")]
pub use stdout::{LineWriter, StdoutSink};
pub use template::{BadTemplate, RenderError, Template};
#[cfg(feature = "webhook")]
pub use webhook::WebhookSink;

#[cfg(all(doctest, feature = "webhook"))]
#[doc = include_str!("../../../docs/guides/webhooks.md")]
struct Webhooks;
