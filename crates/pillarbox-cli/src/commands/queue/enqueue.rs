//! `queue enqueue`: enqueues one message in its own transaction.

use std::sync::Arc;

use clap::Args;
use pillarbox::Queue;
use pillarbox::model::{Event, JoinId, JoinStatus};
use pillarbox::port::{Cancel, Store};
use pillarbox::queue::{Enqueued, JoinError};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use crate::commands::envelope::Envelope;
use crate::commands::{Session, payload};
use crate::environment::operator;

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
            attach(&queue, join, &enqueued).await?;
        }
        if !enqueued.fresh {
            session.output.note("a message with this message id was there already: nothing was added");
        }
        let id = enqueued.message.to_string();
        session.output.answer(&Printed { id, fresh: enqueued.fresh, join: self.join })
    }

    /// Checks the join before the message is enqueued, so that no message is left without its join.
    async fn check(&self, queue: &Queue<Arc<dyn Store>>, join: &JoinId) -> CommandResult {
        let found = queue.joins().show(join, 0).await?.join;
        // A message with a message id may already exist and be attached: only attaching it tells.
        if self.envelope.message_id.is_some() {
            return Ok(());
        }
        if found.status != JoinStatus::Pending {
            return Err(JoinError::Ended { join: join.clone(), status: found.status }.into());
        }
        if found.attached >= found.expected {
            return Err(JoinError::Full { join: join.clone(), expected: found.expected }.into());
        }
        Ok(())
    }
}

/// Attaches the message to the join. If the join refuses it, a new message is cancelled again, unless a
/// worker has claimed it already.
async fn attach(queue: &Queue<Arc<dyn Store>>, join: &JoinId, enqueued: &Enqueued) -> CommandResult {
    let id = &enqueued.message;
    let Err(error) = queue.joins().attach(join, std::slice::from_ref(id)).await else { return Ok(()) };
    let refused = matches!(error, JoinError::Ended { .. } | JoinError::Full { .. });
    if refused && enqueued.fresh {
        let cancel = Cancel { ids: vec![id.clone().into()], by: operator(), now: None };
        if queue.store().admin().cancel(cancel).await.is_ok_and(|cancelled| !cancelled.is_empty()) {
            return Err(error.into());
        }
    }
    let failure = CommandError::from(error).during(format!("message {id} is enqueued, not attached"));
    Err(failure.hint(format!("`pillarbox join attach {join} {id}` attaches it")))
}

#[derive(Debug, Serialize)]
struct Printed {
    id: String,
    /// False if a message with this message id existed already.
    fresh: bool,
    join: Option<String>,
}

impl Printable for Printed {
    fn for_people(&self, _: Ink) -> String {
        self.id.clone()
    }
}
