//! `queue enqueue`: enqueues one message in its own transaction.

use std::sync::Arc;

use clap::Args;
use pillarbox::Queue;
use pillarbox::model::{Event, JoinId, JoinStatus};
use pillarbox::port::Store;
use pillarbox::queue::JoinError;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use crate::commands::envelope::Envelope;
use crate::commands::{Session, payload};

/// Arguments of `queue enqueue`.
#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// Topic, by which workers choose messages
    #[arg(long)]
    topic: String,
    /// The payload: text as it is, `@FILE` for a file, `-` for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    payload: String,
    #[command(flatten)]
    envelope: Envelope,
    /// Make it a step of this join
    #[arg(long)]
    join: Option<String>,
}

impl Enqueue {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        // Checked before the store is opened, so that a mistake in the arguments fails fast.
        let plain = self.envelope.put_into(Event::builder(self.topic.as_str()))?;
        let join = self.join.as_deref().map(JoinId::new).transpose()?;
        let queue = session.queue().await?;
        let content = payload::read_or_input(&self.payload, queue.store().facts().limits.payload)?;
        if let Some(join) = &join {
            self.check(&queue, join).await?;
        }
        let enqueued = queue.enqueue(content.put_into(plain)).await?;
        if let Some(join) = &join {
            let attached = queue.joins().attach(join, std::slice::from_ref(&enqueued.message)).await;
            attached.map_err(|error| {
                let id = &enqueued.message;
                let failure =
                    CommandError::from(error).during(format!("message {id} is enqueued, not attached"));
                failure.hint(format!("`pillarbox join attach {join} {id}` attaches it"))
            })?;
        }
        if !enqueued.fresh {
            session.output.note("a message with this message id was there already: nothing was added");
        }
        let id = enqueued.message.to_string();
        session.output.answer(&Enqueued { id, fresh: enqueued.fresh, join: self.join })
    }

    /// Checks the join before the message is enqueued, so that no message is left without its join.
    async fn check(&self, queue: &Queue<Arc<dyn Store>>, join: &JoinId) -> CommandResult {
        let found = queue.joins().show(join, 0).await?.join;
        if found.status != JoinStatus::Pending {
            return Err(JoinError::Ended { join: join.clone(), status: found.status }.into());
        }
        // A message with a message id may already exist and be attached, so a full join is no error yet.
        if self.envelope.message_id.is_none() && found.attached >= found.expected {
            return Err(JoinError::Full { join: join.clone(), expected: found.expected }.into());
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
struct Enqueued {
    id: String,
    /// False if a message with this message id existed already.
    fresh: bool,
    join: Option<String>,
}

impl Printable for Enqueued {
    fn for_people(&self, _: Ink) -> String {
        self.id.clone()
    }
}
