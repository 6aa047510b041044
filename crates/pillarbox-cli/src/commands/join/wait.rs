//! `join wait`: sets the message that is enqueued when the join ends.

use clap::Args;
use pillarbox::model::{FailedSteps, JoinId};
use pillarbox::queue::Waiting;
use pillarbox_terminal::error::{CommandError, CommandResult};

use super::Changed;
use crate::commands::Session;
use crate::commands::payload::{self, Content};

/// Arguments of `join wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Join id
    join: String,
    /// Topic of the message that is enqueued when the join completes
    #[arg(long, value_name = "TOPIC", required_unless_present = "on_fail_topic")]
    on_complete_topic: Option<String>,
    /// Payload of that message: text as it is, `@FILE` for a file, `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true, default_value = "{}")]
    on_complete_payload: String,
    /// Topic of the message that is enqueued when the join fails
    #[arg(long, value_name = "TOPIC")]
    on_fail_topic: Option<String>,
    /// Payload of that message
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true, default_value = "{}")]
    on_fail_payload: String,
    /// Complete even if steps have failed
    #[arg(long)]
    ignore_failed: bool,
}

impl Wait {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let join = JoinId::new(self.join)?;
        let queue = session.queue().await?;
        let max = queue.store().facts().limits.payload;
        let mut waiting = Waiting::new();
        if let Some(topic) = self.on_complete_topic {
            waiting = waiting.on_complete(topic, text(&self.on_complete_payload, max)?);
        }
        if let Some(topic) = self.on_fail_topic {
            waiting = waiting.on_fail(topic, text(&self.on_fail_payload, max)?);
        }
        if self.ignore_failed {
            waiting = waiting.failed_steps(FailedSteps::Ignore);
        }
        queue.joins().wait(&join, waiting).await?;
        let (did, join) = ("set what is enqueued when all steps have ended".to_owned(), join.to_string());
        session.output.answer(&Changed { action: "wait", did, join, changed: true })
    }
}

fn text(source: &str, max: usize) -> CommandResult<String> {
    match payload::read_or_input(source, max)? {
        Content::Text(text) => Ok(text),
        Content::Bytes(_) => {
            Err(CommandError::usage("the payload of what follows a join is text, and this is not UTF-8"))
        }
    }
}
