//! Options that `write` and `queue enqueue` share: headers, times and ids.

use clap::Args;
use pillarbox::model::{EventBuilder, When};
use pillarbox_terminal::error::CommandResult;

use crate::parse;

/// Headers, times and ids of an event or message.
#[derive(Debug, Args)]
pub(crate) struct Envelope {
    /// Header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Deliver no earlier than this: a time in RFC 3339, or a duration from now
    #[arg(long, value_name = "TIME|DURATION", value_parser = parse::when)]
    due: Option<When>,
    /// Deliver no later than this: afterwards it goes dead
    #[arg(long, value_name = "TIME|DURATION", value_parser = parse::when)]
    expires: Option<When>,
    /// Logical id: writing it again adds nothing
    #[arg(long, value_name = "ID")]
    pub(crate) message_id: Option<String>,
    /// Correlation id of related messages
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
}

impl Envelope {
    pub(crate) fn put_into(&self, mut builder: EventBuilder) -> CommandResult<EventBuilder> {
        for header in &self.headers {
            let (name, value) = parse::header(header)?;
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
