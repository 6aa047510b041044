//! Encodes an event as one element of the array, and selects its URL.

use std::sync::Arc;

use pillarbox::Event;
use pillarbox::port::Delivery;
use reqwest::Url;

use crate::envelope::{Format, is_json, structured};
use crate::error::SinkError;
use crate::options::{SOURCE, SinkOptions};
use crate::template::Template;
use crate::transport::{Target, path_template};

/// The default path for events of the type `DISPATCH_JOB`.
pub const DISPATCH_JOBS_PATH: &str = "/api/dispatch/jobs/batch";
/// The default path for all other events.
pub const EVENTS_PATH: &str = "/api/events/batch";

/// One event of a request, with its URL and its JSON.
pub(super) struct Element<'a> {
    pub(super) event: &'a Event,
    pub(super) url: Arc<Url>,
    pub(super) json: Json,
}

/// The JSON of one event.
pub(super) enum Json {
    /// The payload itself.
    Payload,
    /// An envelope that contains the payload.
    Envelope(Vec<u8>),
}

/// Encodes events as elements of a batch.
pub(super) struct Maker {
    paths: Paths,
    format: Format,
    source: String,
}

/// The rule that selects the URL of an event.
enum Paths {
    /// By the type of the event.
    ByType { events: Arc<Url>, jobs: Arc<Url> },
    /// The same URL for all events.
    One(Arc<Url>),
    /// A template below the path of the target.
    Template(Box<Target>, Template),
}

impl Paths {
    fn new(target: Target, template: Option<&str>) -> Result<Self, SinkError> {
        let below = |path| target.below(path).map(Arc::new).map_err(SinkError::url);
        if let Some(template) = template.map(path_template).transpose()? {
            return match template.as_constant() {
                Some(path) => Ok(Self::One(below(path)?)),
                None => Ok(Self::Template(Box::new(target), template)),
            };
        }
        Ok(Self::ByType { events: below(EVENTS_PATH)?, jobs: below(DISPATCH_JOBS_PATH)? })
    }

    fn of(&self, event: &Event) -> Result<Arc<Url>, String> {
        match self {
            Self::ByType { jobs, .. } if event.event_type() == "DISPATCH_JOB" => Ok(Arc::clone(jobs)),
            Self::ByType { events, .. } => Ok(Arc::clone(events)),
            Self::One(url) => Ok(Arc::clone(url)),
            Self::Template(target, template) => target.rendered_below(template, event).map(Arc::new),
        }
    }
}

impl Maker {
    pub(super) fn new(target: Target, options: &SinkOptions) -> Result<Self, SinkError> {
        if options.format == Format::CloudEventsBinary {
            let reason = "a batch has one set of headers for all events: use raw or cloudevents";
            return Err(SinkError::option("format", reason));
        }
        Ok(Self {
            paths: Paths::new(target, options.destination.as_deref())?,
            format: options.format,
            source: options.source.clone(),
        })
    }

    /// The source, if it is not the default that all outboxes share.
    pub(super) fn own_source(&self) -> Option<&str> {
        Some(self.source.as_str()).filter(|source| *source != SOURCE)
    }

    /// The content type of the array.
    pub(super) fn content_type(&self) -> &'static str {
        match self.format {
            Format::CloudEventsStructured => "application/cloudevents-batch+json",
            Format::Raw | Format::CloudEventsBinary => "application/json",
        }
    }

    /// Encodes an event. An error is the event's own fault.
    pub(super) fn element<'a>(&self, delivery: &'a Delivery) -> Result<Element<'a>, String> {
        let event = &delivery.event;
        let json = match self.format {
            Format::CloudEventsStructured => Json::Envelope(structured(event, &self.source)?),
            Format::Raw | Format::CloudEventsBinary if is_json(event.payload().as_bytes()) => Json::Payload,
            Format::Raw | Format::CloudEventsBinary => {
                return Err("the payload is not JSON; the format `cloudevents` sends it in base64".to_owned());
            }
        };
        let url = self.paths.of(event)?;
        Ok(Element { event, url, json })
    }
}
