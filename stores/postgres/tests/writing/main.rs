//! Every door that events are written by, on a real server.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

mod any_driver;
mod dropped;
mod kit;
mod lost;
mod pipeline;
mod pipelined;
mod queue;
mod round_trips;
mod users;
mod wire;
