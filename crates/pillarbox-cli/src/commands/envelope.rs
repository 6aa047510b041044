//! What events and messages of the queue are written with alike: headers, times, ids.

use clap::Args;
use pillarbox::model::{EventBuilder, When};
use pillarbox_terminal::failure::Outcome;

use crate::form;

/// Headers, times, ids.
#[derive(Debug, Args)]
pub(crate) struct Envelope {
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Not to be delivered before: RFC 3339, or a duration from now
    #[arg(long, value_name = "TIME|DURATION", value_parser = form::when)]
    due: Option<When>,
    /// Not to be delivered after: it then ends as dead
    #[arg(long, value_name = "TIME|DURATION", value_parser = form::when)]
    expires: Option<When>,
    /// A logical id: a second one with the same id adds nothing
    #[arg(long, value_name = "ID")]
    pub(crate) message_id: Option<String>,
    /// What ties related ones together
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

impl Envelope {
    pub(crate) fn put_into(&self, mut builder: EventBuilder) -> Outcome<EventBuilder> {
        for header in &self.headers {
            let (name, value) = form::header(header)?;
            builder = builder.header(name, value);
        }
        if let Some(id) = &self.message_id {
            builder = builder.message_id(id);
        }
        if let Some(id) = &self.correlation_id {
            builder = builder.correlation_id(id);
        }
        if let Some(due) = self.due {
            builder = builder.due(due);
        }
        if let Some(expires) = self.expires {
            builder = builder.expires(expires);
        }
        Ok(builder)
    }
}
