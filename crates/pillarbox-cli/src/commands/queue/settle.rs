//! `queue ack`, `abandon`, `fail`, `extend`: settle claimed messages or extend their lease.

use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pillarbox::Queue;
use pillarbox::model::OwnerId;
use pillarbox::port::Store;
use pillarbox::queue::{QueueError, Settlement, WorkItemId};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use crate::bulk::BATCH;
use crate::commands::Session;
use crate::parse;

/// The queue of the database that the command line names.
type OpenQueue = Queue<Arc<dyn Store>>;

/// Stands for standard input in place of items.
const INPUT: &str = "-";
/// Maximum number of items on standard input, and maximum length of each line on average.
const ITEMS_MAX: u64 = 100_000;
const LINE_MAX: u64 = 256;

/// The example at the end of each command's help.
macro_rules! after_help {
    ($command:literal, $option:literal) => {
        concat!(
            "Example:\n  pillarbox queue ",
            $command,
            " --owner $owner 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR@3",
            $option,
            "\n\nItems that are unknown, ended, or another's by now are left alone and counted as ignored; the exit code is 0.",
            "\nIt is 4, ownership lost, where nothing at all was changed.",
            "\n\nWith `-` instead of items they are read from standard input, one on each line:",
            "\n  pillarbox queue claim --owner $owner --json | jq -r '.[].item' | pillarbox queue ",
            $command,
            " --owner $owner -"
        )
    };
}
pub(super) use after_help;

/// The claimed messages and their owner.
#[derive(Debug, Args)]
struct ClaimedItems {
    /// Owner of the claim
    #[arg(long, value_name = "UUID", value_parser = parse::owner)]
    owner: OwnerId,
    /// Messages, each as printed by `queue claim`; `-` reads them from standard input, one on each line
    #[arg(value_name = "ID@TOKEN|-", required = true, value_parser = item)]
    items: Vec<String>,
}

/// Parses an item, or the `-` that stands for standard input.
fn item(text: &str) -> Result<String, String> {
    if text == INPUT { Ok(text.to_owned()) } else { parse::work_item(text) }
}

/// Reads items from standard input. All lines are checked before the first item is settled.
fn read_items() -> CommandResult<Vec<String>> {
    let mut items = Vec::new();
    let mut input = io::stdin().lock().take(ITEMS_MAX * LINE_MAX);
    let (mut line, mut number) = (String::new(), 0_u64);
    while input.read_line(&mut line)? > 0 {
        number += 1;
        let text = line.trim();
        if !text.is_empty() {
            let item = parse::work_item(text);
            let item = item.map_err(|why| CommandError::usage(format!("line {number}: {why}")))?;
            items.push(item);
        }
        line.clear();
    }
    if items.len() as u64 > ITEMS_MAX || input.limit() == 0 {
        let many = format!("standard input has more than {ITEMS_MAX} items: nothing was changed");
        return Err(CommandError::usage(many).hint("settle them in several runs"));
    }
    Ok(items)
}

impl ClaimedItems {
    /// Settles the items in batches, and prints how many were changed.
    async fn settle(
        self,
        session: &Session,
        (action, did): (&'static str, &'static str),
        change: impl AsyncFn(&OpenQueue, &OwnerId, &[WorkItemId]) -> Result<Settlement, QueueError>,
    ) -> CommandResult {
        let from_input = self.items.iter().any(|item| item == INPUT);
        if from_input && self.items.len() > 1 {
            return Err(CommandError::usage("give items or `-`, not both"));
        }
        let items = if from_input { read_items()? } else { self.items };
        let queue = session.queue().await?;
        let mut total = Settlement { changed: 0, ignored: 0 };
        for batch in items.chunks(BATCH) {
            let found = queue.find(batch).await?;
            let settled = change(&queue, &self.owner, &found).await;
            let settled = settled.map_err(|error| match total.changed {
                0 => CommandError::from(error),
                changed => CommandError::from(error)
                    .during(format!("stopped after {}", counted(changed as u64, "message"))),
            })?;
            total.changed += settled.changed;
            total.ignored += settled.ignored;
        }
        let Settlement { changed, ignored } = total;
        session.output.answer(&Settled { action, did, changed, ignored })?;
        if changed > 0 || items.is_empty() {
            return Ok(());
        }
        let none = "nothing was changed: no item is held by this owner with this token";
        Err(CommandError::ownership_lost(none)
            .hint("its lease has ended, or it was settled before; claim again"))
    }
}

/// Arguments of `queue ack`.
#[derive(Debug, Args)]
pub(crate) struct Ack {
    #[command(flatten)]
    held: ClaimedItems,
}

impl Ack {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let ack =
            async |queue: &OpenQueue, owner: &OwnerId, items: &[WorkItemId]| queue.ack(owner, items).await;
        self.held.settle(session, ("ack", "acknowledged"), ack).await
    }
}

/// Arguments of `queue abandon`.
#[derive(Debug, Args)]
pub(crate) struct Abandon {
    #[command(flatten)]
    held: ClaimedItems,
    /// Reason, shown by `events show`
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Retry after this long instead of 2, 4, 8 … 60 s
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    delay: Option<Duration>,
}

impl Abandon {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let (delay, error) = (self.delay, self.error.as_deref());
        let abandon = async |queue: &OpenQueue, owner: &OwnerId, items: &[WorkItemId]| match delay {
            Some(delay) => queue.reschedule(owner, items, delay, error).await,
            None => queue.abandon(owner, items, error).await,
        };
        self.held.settle(session, ("abandon", "abandoned"), abandon).await
    }
}

/// Arguments of `queue fail`.
#[derive(Debug, Args)]
pub(crate) struct Fail {
    #[command(flatten)]
    held: ClaimedItems,
    /// Reason, shown by `events show`
    #[arg(long, value_name = "TEXT", default_value = "failed")]
    error: String,
}

impl Fail {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let error = self.error.as_str();
        let fail = async |queue: &OpenQueue, owner: &OwnerId, items: &[WorkItemId]| {
            queue.fail(owner, items, error).await
        };
        self.held.settle(session, ("fail", "failed"), fail).await
    }
}

/// Arguments of `queue extend`.
#[derive(Debug, Args)]
pub(crate) struct Extend {
    #[command(flatten)]
    held: ClaimedItems,
    /// Length of the lease from now on
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
}

impl Extend {
    pub(super) async fn run(self, session: &Session) -> CommandResult {
        let lease = self.lease;
        let extend = async |queue: &OpenQueue, owner: &OwnerId, items: &[WorkItemId]| {
            queue.extend(owner, items, lease).await
        };
        self.held.settle(session, ("extend", "extended"), extend).await
    }
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
