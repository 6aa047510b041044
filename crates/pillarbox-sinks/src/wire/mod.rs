//! The wire: what the sinks that speak HTTP share.

mod answer;
mod client;
mod resolver;
mod retry_after;
mod status;
mod target;
mod text;
mod token;

pub(crate) use answer::{Answer, Body};
pub(crate) use client::{Client, Post};
pub(crate) use status::Blame;
pub(crate) use target::{Schemes, Target, path_template};
