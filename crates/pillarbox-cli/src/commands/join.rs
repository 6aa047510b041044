//! `join`: enqueues another message when all messages of a join have ended.

mod show;
mod wait;

use clap::{Args, Subcommand, ValueEnum};
use pillarbox::model::{JoinId, JoinStatus};
use pillarbox::queue::{JoinBuilder, MessageId};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use super::Session;
use super::paging::Limit;
use crate::environment::operator;
use show::{Listed, Shown};
use wait::Wait;

/// Subcommands of `join`.
#[derive(Debug, Subcommand)]
pub(crate) enum Join {
    /// Start a join with a number of steps and print its id
    #[command(after_help = "\
Examples:
  join=$(pillarbox join start --expected 3 --group customer-7)
  pillarbox join start --expected 3 --id import-7 --metadata '{\"file\":\"a.csv\"}'

Starting one that already exists changes nothing.")]
    Start(Start),
    /// Add messages of the queue to a join as steps, all or none
    #[command(after_help = "\
Example:
  pillarbox join attach import-7 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR

`queue enqueue --join` attaches a new message. A message that has ended already counts at once.")]
    Attach(Attach),
    /// Report the end of a step by hand
    #[command(after_help = "\
Example:
  pillarbox join report import-7 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR --completed

Messages in the queue report their end themselves; this is for steps that end elsewhere.")]
    Report(Report),
    /// Set what is enqueued when the last step has ended; does not block
    #[command(after_help = "\
Example:
  pillarbox join wait import-7 --on-complete-topic transform --on-complete-payload '{\"import\":7}' --on-fail-topic alarm

Once per join. If the last step has ended already, the message is enqueued at once.")]
    Wait(Wait),
    /// Cancel a join: nothing is enqueued when its steps end
    #[command(after_help = "Example:\n  pillarbox join cancel import-7")]
    Cancel {
        /// Join id
        join: String,
    },
    /// Show a join with its members
    #[command(after_help = "Example:\n  pillarbox join show import-7 --json")]
    Show {
        /// Join id
        join: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// List joins, newest first
    #[command(after_help = "Example:\n  pillarbox join list --group customer-7 --status pending")]
    List(List),
}

/// Arguments of `join start`.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Number of steps
    #[arg(long, value_name = "N")]
    expected: u32,
    /// Id of the join [default: generated]
    #[arg(long)]
    id: Option<String>,
    /// Owner of the join, to find it by
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
    /// Note, stored as it is
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
}

/// Arguments of `join attach`.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Join id
    join: String,
    /// Message ids
    #[arg(value_name = "ID", required = true)]
    messages: Vec<String>,
}

/// Arguments of `join report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Join id
    join: String,
    /// Message id
    #[arg(value_name = "ID")]
    message: String,
    /// The step succeeded
    #[arg(long, conflicts_with = "failed", required_unless_present = "failed")]
    completed: bool,
    /// The step failed
    #[arg(long)]
    failed: bool,
}

/// Arguments of `join list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only joins of this owner
    #[arg(long, value_name = "KEY")]
    group: Option<String>,
    /// Only joins with this status
    #[arg(long)]
    status: Option<Status>,
    #[command(flatten)]
    limit: Limit,
}

/// The status of a join.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    // Not all steps have ended, or `join wait` was not called
    Pending,
    // All steps ended, and failed steps did not count against it
    Completed,
    // All steps ended, and a failed step made the join fail
    Failed,
    // Cancelled by `join cancel`
    Cancelled,
}

impl From<Status> for JoinStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl Join {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Start(start) => start.run(session).await,
            Self::Attach(attach) => attach.run(session).await,
            Self::Report(report) => report.run(session).await,
            Self::Wait(wait) => wait.run(session).await,
            Self::Cancel { join } => cancel(session, &join).await,
            Self::Show { join, limit } => show(session, &join, limit).await,
            Self::List(list) => list.run(session).await,
        }
    }
}

impl Start {
    async fn run(self, session: &Session) -> CommandResult {
        let mut join = JoinBuilder::of(self.expected);
        if let Some(id) = self.id {
            join = join.id(JoinId::new(id)?);
        }
        if let Some(key) = self.group {
            join = join.grouping_key(key);
        }
        if let Some(metadata) = self.metadata {
            join = join.metadata(metadata);
        }
        let id = session.queue().await?.joins().start(join).await?;
        session.output.answer(&Started { id: id.to_string() })
    }
}

impl Attach {
    async fn run(self, session: &Session) -> CommandResult {
        let join = JoinId::new(self.join)?;
        let messages = self.messages.iter().map(|id| MessageId::parse(id)).collect::<Result<Vec<_>, _>>()?;
        let changed = session.queue().await?.joins().attach(&join, &messages).await?;
        let did = format!("attached {}", counted(messages.len() as u64, "message"));
        session.output.answer(&Changed { action: "attach", did, join: join.to_string(), changed })
    }
}

impl Report {
    async fn run(self, session: &Session) -> CommandResult {
        let (join, message) = (JoinId::new(self.join)?, MessageId::parse(&self.message)?);
        let queue = session.queue().await?;
        let (changed, did) = if self.failed {
            (queue.joins().report_failed(&join, &message).await?, "a step has failed")
        } else {
            (queue.joins().report_completed(&join, &message).await?, "a step has completed")
        };
        let (did, join) = (did.to_owned(), join.to_string());
        session.output.answer(&Changed { action: "report", did, join, changed })
    }
}

async fn cancel(session: &Session, join: &str) -> CommandResult {
    let join = JoinId::new(join)?;
    let changed = session.queue().await?.joins().cancel(&join, operator()).await?;
    let (did, join) = ("cancelled".to_owned(), join.to_string());
    session.output.answer(&Changed { action: "cancel", did, join, changed })
}

async fn show(session: &Session, join: &str, limit: Limit) -> CommandResult {
    let join = JoinId::new(join)?;
    let shown = session.queue().await?.joins().show(&join, limit.limit as usize).await?;
    let more = shown.join.attached as usize > shown.members.len();
    session.output.answer(&Shown::from(&shown))?;
    if more {
        session.output.note(&format!("{} members shown, there are more: --limit", shown.members.len()));
    }
    Ok(())
}

impl List {
    async fn run(self, session: &Session) -> CommandResult {
        let (status, limit) = (self.status.map(Into::into), self.limit.limit as usize);
        let joins = session.queue().await?.joins().list(self.group.as_deref(), status, limit).await?;
        session.output.answer(&Listed::from(joins.as_slice()))?;
        if joins.len() == limit {
            session.output.note(&format!("{limit} shown, there may be more: --limit"));
        }
        Ok(())
    }
}

#[derive(Debug, Serialize)]
struct Started {
    id: String,
}

impl Printable for Started {
    fn for_people(&self, _: Ink) -> String {
        self.id.clone()
    }
}

/// The result of a change of a join.
#[derive(Debug, Serialize)]
struct Changed {
    action: &'static str,
    #[serde(skip)]
    did: String,
    join: String,
    /// False if the same change had been made before.
    changed: bool,
}

impl Printable for Changed {
    fn for_people(&self, _: Ink) -> String {
        match self.changed {
            true => format!("{}: {}", self.join, self.did),
            false => format!("{}: nothing to change", self.join),
        }
    }
}
