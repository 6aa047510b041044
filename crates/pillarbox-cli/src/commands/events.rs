//! `events`: lists and shows events, explains what holds them, and cancels pending ones.

mod show;
mod why;

use clap::{Args, Subcommand, ValueEnum};
use pillarbox::model::{EventId, GroupKey, Status};
use pillarbox::port::{Cancel, Select, Shown, Table};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use super::Session;
use super::paging::{self, Limit, Order};
use crate::environment::operator;
use crate::view::Whole;
pub(crate) use show::dead_table;

/// Subcommands of `events`.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// List events, without payloads
    #[command(after_help = "\
Examples:
  pillarbox events list --status retry
  pillarbox events list --type order.placed --group Account/42 --limit 10")]
    List(List),
    /// Show one event with its payload, headers and failed attempts
    #[command(after_help = "Example:\n  pillarbox events show 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR")]
    Show {
        /// Event id
        id: String,
    },
    /// Explain why an event is not delivered: the reason, its evidence and what to do
    #[command(after_help = "Example:\n  pillarbox events why 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR")]
    Why {
        /// Event id
        id: String,
    },
    /// Cancel pending events: delete them before they are delivered
    #[command(after_help = "Example:\n  pillarbox events cancel 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR")]
    Cancel(CancelIds),
}

/// Arguments of `events list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only events with this status
    #[arg(long, value_name = "STATUS")]
    status: Option<StatusFilter>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events of this group: the message group, or TYPE/ID of the aggregate
    #[arg(long)]
    group: Option<String>,
    /// Sort order
    #[arg(long, default_value = "newest")]
    order: Order,
    #[command(flatten)]
    limit: Limit,
}

/// A status, or `pending` for both statuses of pending events.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatusFilter {
    // Written, no failed attempt yet
    New,
    // Failed, will be retried
    Retry,
    // New or retry
    Pending,
    // Delivered
    Done,
    // Given up
    Dead,
}

impl StatusFilter {
    fn statuses(self) -> Vec<Status> {
        match self {
            Self::New => vec![Status::New],
            Self::Retry => vec![Status::Retry],
            Self::Pending => vec![Status::New, Status::Retry],
            Self::Done => vec![Status::Done],
            Self::Dead => vec![Status::Dead],
        }
    }
}

/// Arguments of `events cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelIds {
    /// Event ids
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Print what would be cancelled and cancel nothing
    #[arg(long)]
    dry_run: bool,
}

impl Events {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store().await?;
        match self {
            Self::List(list) => list.run(session, &*store).await,
            Self::Show { id } => session.output.answer(&Whole::from(&find(&*store, &id).await?)),
            Self::Why { id } => why::run(session, &store, &id).await,
            Self::Cancel(cancel) => cancel.run(session, &*store).await,
        }
    }
}

/// Finds the event with this id, or fails.
pub(crate) async fn find(store: &dyn Table, id: &str) -> CommandResult<Shown> {
    let shown = store.admin().show(EventId::from_row(id)).await?;
    shown.ok_or_else(|| CommandError::not_found(format!("there is no event {id:?}")))
}

impl List {
    async fn run(self, session: &Session, store: &dyn Table) -> CommandResult {
        let select = Select {
            statuses: self.status.map(StatusFilter::statuses).unwrap_or_default(),
            event_type: self.event_type,
            group: self.group.map(GroupKey::new),
            ..Select::default()
        };
        let events = paging::read(store, select, self.order, self.limit.limit).await?;
        let full = events.len() as u64 == self.limit.limit;
        session.output.answer(&show::Listed(events))?;
        if full {
            session.output.note(&format!("{} shown, there may be more: --limit", self.limit.limit));
        }
        Ok(())
    }
}

impl CancelIds {
    async fn run(self, session: &Session, store: &dyn Table) -> CommandResult {
        for id in &self.ids {
            let record = find(store, id).await?.record;
            if !record.status.is_pending() {
                return Err(CommandError::failed(format!(
                    "event {id:?} is {}, only a pending one can be cancelled",
                    record.status
                )));
            }
        }
        if self.dry_run {
            return session.output.answer(&Cancelled { action: "cancel", dry_run: true, events: self.ids });
        }
        let ids = self.ids.iter().map(|id| EventId::from_row(id.as_str())).collect();
        let cancelled = store.admin().cancel(Cancel { ids, by: operator(), now: None }).await?;
        let events: Vec<String> = cancelled.iter().map(ToString::to_string).collect();
        let left = self.ids.iter().find(|id| !events.contains(id)).cloned();
        session.output.answer(&Cancelled { action: "cancel", dry_run: false, events })?;
        match left {
            None => Ok(()),
            Some(id) => {
                Err(CommandError::failed(format!("event {id:?} is being delivered and was not cancelled")))
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct Cancelled {
    action: &'static str,
    dry_run: bool,
    events: Vec<String>,
}

impl Printable for Cancelled {
    fn for_people(&self, _: Ink) -> String {
        let verb = if self.dry_run { "would cancel" } else { "cancelled" };
        match self.events.as_slice() {
            [] => "nothing was cancelled".to_owned(),
            events => events.iter().map(|id| format!("{verb} {id}")).collect::<Vec<_>>().join("\n"),
        }
    }
}
