//! Sinks for HTTP batch endpoints, webhooks, message brokers and standard output, each behind a feature.
//!
//! Every sink implements [`pillarbox::port::Sink`], so both the relay and an outbox in process can use it.
//! [`open`] opens the sink of a URL.
//!
#![cfg_attr(feature = "stdout", doc = include_str!("in_process.md"))]

#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod address;
#[cfg(any(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "webhook"
))]
mod cleartext;
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod courier;
mod egress;
mod envelope;
mod error;
mod fault;
mod forwarded_headers;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod lazy_connection;
#[cfg(feature = "nats")]
mod nats;
mod open;
mod options;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
mod secret;
#[cfg(feature = "stdout")]
mod stdout;
mod template;
#[cfg(any(feature = "http", feature = "nats", feature = "redis", feature = "webhook"))]
mod tls;
#[cfg(any(feature = "http", feature = "webhook"))]
mod transport;
#[cfg(feature = "webhook")]
mod webhook;

#[cfg(feature = "http")]
pub use self::http::{BatchSink, DISPATCH_JOBS_PATH, EVENTS_PATH};
#[cfg(feature = "redis")]
pub use crate::redis::RedisSink;
pub use egress::{Blocked, Egress};
pub use envelope::{Binding, Encoded, Envelope, Format};
pub use error::SinkError;
#[cfg(feature = "kafka")]
pub use kafka::KafkaSink;
#[cfg(feature = "nats")]
pub use nats::NatsSink;
pub use open::open;
pub use options::{Answers, Compression, Http2, KeepAnswers, SinkOptions};
#[cfg(feature = "rabbitmq")]
pub use rabbitmq::RabbitMqSink;
pub use secret::{Secret, TokenSource};
#[cfg(feature = "stdout")]
pub use stdout::{LineWriter, StdoutSink};
pub use template::{BadTemplate, RenderError, Template};
#[cfg(any(feature = "http", feature = "nats", feature = "redis", feature = "webhook"))]
pub use tls::ensure_tls_provider;
#[cfg(feature = "webhook")]
pub use webhook::WebhookSink;

#[cfg(all(doctest, feature = "webhook"))]
#[doc = include_str!("../../../docs/guides/webhooks.md")]
struct Webhooks;
