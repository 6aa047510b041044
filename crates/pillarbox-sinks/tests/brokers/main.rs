//! The sinks for brokers against real brokers, which a test starts again where it must see what is kept.
#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod checks;
mod events;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
mod server;
