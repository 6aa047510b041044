//! Parts: an event as one element of the array, and where it goes.

use std::borrow::Cow;
use std::sync::Arc;

use pillarbox::Event;
use pillarbox::port::Delivery;
use reqwest::Url;

use crate::envelope::{Format, is_json, structured};
use crate::error::SinkError;
use crate::options::SinkOptions;
use crate::template::Template;
use crate::transport::{Schemes, Target, path_template};

/// Where items of the type `DISPATCH_JOB` go.
pub const DISPATCH_JOBS_PATH: &str = "/api/dispatch/jobs/batch";
/// Where all others go.
pub const EVENTS_PATH: &str = "/api/events/batch";

/// One event of a request.
pub(super) struct Part<'a> {
    pub(super) event: &'a Event,
    pub(super) url: Arc<Url>,
    pub(super) json: Cow<'a, [u8]>,
}

/// Makes parts of events.
pub(super) struct Maker {
    paths: Paths,
    format: Format,
    source: String,
}

/// Where events go.
enum Paths {
    /// By their type.
    ByType { events: Arc<Url>, jobs: Arc<Url> },
    /// All to one.
    One(Arc<Url>),
    /// By a template, below the target.
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
    pub(super) fn new(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        if options.format == Format::CloudEventsBinary {
            let reason = "a batch has one set of headers for all events: use raw or cloudevents";
            return Err(SinkError::option("format", reason));
        }
        Ok(Self {
            paths: Paths::new(Target::parse(url, Schemes::Any)?, options.destination.as_deref())?,
            format: options.format,
            source: options.source.clone(),
        })
    }

    /// The kind of content that an array of parts is.
    pub(super) fn content_type(&self) -> &'static str {
        match self.format {
            Format::CloudEventsStructured => "application/cloudevents-batch+json",
            Format::Raw | Format::CloudEventsBinary => "application/json",
        }
    }

    /// The part of an event; an error is the event's own fault.
    pub(super) fn part<'a>(&self, delivery: &'a Delivery) -> Result<Part<'a>, String> {
        let event = &delivery.event;
        let json = match self.format {
            Format::CloudEventsStructured => Cow::Owned(structured(event, &self.source)?),
            Format::Raw | Format::CloudEventsBinary if is_json(event.payload().as_bytes()) => {
                Cow::Borrowed(event.payload().as_bytes())
            }
            Format::Raw | Format::CloudEventsBinary => return Err("the payload is not JSON".to_owned()),
        };
        let url = self.paths.of(event)?;
        Ok(Part { event, url, json })
    }
}
