//! From configuration to a sink: by its URL, or whatever a test puts in its place.

use std::sync::Arc;

use pillarbox::port::Sink;
use pillarbox_sinks::{DISPATCH_JOBS_PATH, EVENTS_PATH, LineWriter, SinkOptions};

use crate::config::{SinkConfig, SinkKind};

/// Which rows a sink is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Rows of the table of events.
    Events,
    /// Dispatch jobs.
    DispatchJobs,
}

impl Route {
    /// Its path at the HTTP API.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Events => EVENTS_PATH,
            Self::DispatchJobs => DISPATCH_JOBS_PATH,
        }
    }
}

/// Makes the sinks of a relay.
pub trait Sinks: Send + Sync + 'static {
    /// The sink of a source for these rows, or what is wrong with its configuration, without secrets.
    fn open(&self, config: &SinkConfig, route: Route) -> Result<Arc<dyn Sink>, String>;
}

/// The sinks that URLs name.
#[derive(Default)]
pub struct UrlSinks {
    /// Where the sink `stdout:` writes.
    pub writer: Option<LineWriter>,
}

impl Sinks for UrlSinks {
    fn open(&self, config: &SinkConfig, route: Route) -> Result<Arc<dyn Sink>, String> {
        let mut options = SinkOptions { writer: self.writer.clone(), ..config.options.clone() };
        if config.kind == SinkKind::Api && options.destination.is_none() {
            options.destination = Some(route.path().to_owned());
        }
        pillarbox_sinks::open(config.url.reveal(), &options).map_err(|error| error.to_string())
    }
}
