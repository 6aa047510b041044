//! Opens the sinks of a relay from their configuration; tests replace [`UrlSinks`] with their own [`Sinks`].

use std::sync::Arc;

use pillarbox::port::Sink;
use pillarbox_sinks::{DISPATCH_JOBS_PATH, EVENTS_PATH, LineWriter, SinkOptions};

use crate::config::{SinkConfig, SinkKind};

/// The kind of rows that a sink receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Rows of the table of events.
    Events,
    /// Rows of the table of dispatch jobs, which only the flowcatalyst layout has.
    DispatchJobs,
}

impl Route {
    /// The default path of these rows below `api-base-url`.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Events => EVENTS_PATH,
            Self::DispatchJobs => DISPATCH_JOBS_PATH,
        }
    }
}

/// Opens sinks. Production uses [`UrlSinks`].
pub trait Sinks: Send + Sync + 'static {
    /// Opens a source's sink for these rows. The error says what is wrong with the configuration and contains
    /// no secret.
    fn open(&self, config: &SinkConfig, route: Route) -> Result<Arc<dyn Sink>, String>;
}

/// Opens sinks by the scheme of their URL.
#[derive(Default)]
pub struct UrlSinks {
    /// The writer of the sink `stdout:`.
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
