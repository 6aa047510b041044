//! From configuration to a sink: by its URL, or whatever a test puts in its place.

use std::sync::Arc;

use pillarbox::port::Sink;
use pillarbox_sinks::{Answers, Compression, Egress, Format, Http2, LineWriter, SinkOptions, TokenSource};

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
            Self::Events => "/api/events/batch",
            Self::DispatchJobs => "/api/dispatch/jobs/batch",
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
        let options = SinkOptions { writer: self.writer.clone(), ..options(config, route) };
        pillarbox_sinks::open(config.url.reveal(), &options).map_err(|error| error.to_string())
    }
}

fn options(config: &SinkConfig, route: Route) -> SinkOptions {
    let secret = |text: &crate::Secret| pillarbox_sinks::Secret::new(text.reveal());
    let usual = || (config.kind == SinkKind::Api).then(|| route.path().to_owned());
    let token_file = config.token_file.clone().map(TokenSource::File);
    let egress = Egress {
        plain_http: config.allow_http,
        internal: config.allow_private,
        // An operator who opens the inside names whole services there, on whatever port.
        ports: if config.allow_private { Vec::new() } else { Egress::default().ports },
    };
    SinkOptions {
        format: match config.format.as_str() {
            "cloudevents" => Format::CloudEventsStructured,
            "cloudevents-binary" => Format::CloudEventsBinary,
            _ => Format::Raw,
        },
        source: config.source.clone(),
        destination: config.destination.clone().or_else(usual),
        connect_timeout: config.connect_timeout,
        timeout: config.request_timeout,
        compression: match config.compression.as_str() {
            "gzip" => Compression::Gzip,
            "zstd" => Compression::Zstd,
            _ => Compression::None,
        },
        retry_after_max: config.retry_after_max,
        answers: match config.answers.as_str() {
            "by-status" => Answers::ByStatus,
            _ => Answers::ItemByItem,
        },
        http2: match config.http2.as_str() {
            "prior-knowledge" => Http2::PriorKnowledge,
            _ => Http2::Negotiated,
        },
        proxy: config.proxy.as_ref().map(secret),
        properties: config.properties.iter().map(|(name, value)| (name.clone(), secret(value))).collect(),
        token: token_file.or_else(|| config.token.as_ref().map(secret).map(TokenSource::Text)),
        secrets: config.webhook_secrets.iter().map(secret).collect(),
        egress,
        ca_file: config.ca_file.clone(),
        ..SinkOptions::default()
    }
}
