//! Parts shared by the HTTP sinks: client, target, token and answer.
#![cfg_attr(
    not(all(feature = "http", feature = "webhook")),
    allow(dead_code, unused_imports, reason = "each of the two sinks leaves out what only the other needs")
)]

mod answer;
mod client;
mod frames;
mod resolver;
mod retry_after;
mod status;
mod target;
mod text;
mod token;

pub(crate) use answer::{Body, EndpointResponse};
pub(crate) use client::{Client, Post};
pub(crate) use frames::{Frames, FramesBuilder};
pub(crate) use status::Blame;
pub(crate) use target::{Schemes, Target, path_template};
