//! `queue ack`, `abandon`, `fail`, `extend`: settle claimed messages or extend their lease.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pillarbox::Queue;
use pillarbox::model::OwnerId;
use pillarbox::port::Store;
use pillarbox::queue::{Settlement, WorkItemId};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use crate::commands::Session;
use crate::parse;

/// The example at the end of each command's help.
macro_rules! after_help {
    ($command:literal, $option:literal) => {
        concat!(
            "Example:\n  pillarbox queue ",
            $command,
            " --owner $owner 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR@3",
            $option,
            "\n\nItems that are unknown, ended, or another's by now are left alone and counted as ignored; the exit code is 0.",
            "\nIt is 4, ownership lost, where nothing at all was changed."
        )
    };
}
pub(super) use after_help;

/// The claimed messages and their owner.
#[derive(Debug, Args)]
struct Held {
    /// Owner of the claim
    #[arg(long, value_name = "UUID", value_parser = parse::owner)]
    owner: OwnerId,
    /// Messages, each as printed by `queue claim`
    #[arg(value_name = "ID@TOKEN", required = true, value_parser = parse::work_item)]
    items: Vec<String>,
}

impl Held {
    async fn find(&self, session: &Session) -> CommandResult<(Queue<Arc<dyn Store>>, Vec<WorkItemId>)> {
        let queue = session.queue().await?;
        let items = queue.find(&self.items).await?;
        Ok((queue, items))
    }
}

/// Arguments of `queue ack`.
#[derive(Debug, Args)]
pub(crate) struct Ack {
    #[command(flatten)]
    held: Held,
}

impl Ack {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let (queue, items) = self.held.find(session).await?;
        answer(session, "ack", "acknowledged", queue.ack(&self.held.owner, &items).await?)
    }
}

/// Arguments of `queue abandon`.
#[derive(Debug, Args)]
pub(crate) struct Abandon {
    #[command(flatten)]
    held: Held,
    /// Reason, shown by `events show`
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Abandon {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let (queue, items) = self.held.find(session).await?;
        let settlement = queue.abandon(&self.held.owner, &items, self.error.as_deref()).await?;
        answer(session, "abandon", "abandoned", settlement)
    }
}

/// Arguments of `queue fail`.
#[derive(Debug, Args)]
pub(crate) struct Fail {
    #[command(flatten)]
    held: Held,
    /// Reason, shown by `events show`
    #[arg(long, value_name = "TEXT", default_value = "failed")]
    error: String,
}

impl Fail {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let (queue, items) = self.held.find(session).await?;
        answer(session, "fail", "failed", queue.fail(&self.held.owner, &items, &self.error).await?)
    }
}

/// Arguments of `queue extend`.
#[derive(Debug, Args)]
pub(crate) struct Extend {
    #[command(flatten)]
    held: Held,
    /// Length of the lease from now on
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
}

impl Extend {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let (queue, items) = self.held.find(session).await?;
        let settlement = queue.extend(&self.held.owner, &items, self.lease).await?;
        answer(session, "extend", "extended", settlement)
    }
}

fn answer(
    session: &Session,
    action: &'static str,
    did: &'static str,
    settlement: Settlement,
) -> CommandResult {
    let Settlement { changed, ignored } = settlement;
    session.output.answer(&Settled { action, did, changed, ignored })?;
    if changed > 0 {
        return Ok(());
    }
    Err(CommandError::ownership_lost("nothing was changed: no item is held by this owner with this token")
        .hint("its lease has ended, or it was settled before; claim again"))
}

#[derive(Debug, Serialize)]
struct Settled {
    action: &'static str,
    #[serde(skip)]
    did: &'static str,
    changed: usize,
    ignored: usize,
}

impl Printable for Settled {
    fn for_people(&self, _: Ink) -> String {
        let changed = format!("{} {}", self.did, counted(self.changed as u64, "message"));
        match self.ignored {
            0 => changed,
            ignored => format!("{changed}, {ignored} ignored"),
        }
    }
}
