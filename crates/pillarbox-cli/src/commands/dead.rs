//! `dead`: lists, shows, replays and discards dead events.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use pillarbox::model::{EventId, Status};
use pillarbox::port::{Discard, Replay, Select, StoreError, Table};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable, count};
use serde::Serialize;

use super::Session;
use super::events::{dead_table, find};
use super::paging::{self, Limit, Order};
use crate::bulk::{BATCH, Changed, Consent, Sentence, in_batches};
use crate::environment::operator;
use crate::target::database_now;
use crate::view::{Summary, Whole};

/// Subcommands of `dead`.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List dead events, without payloads
    #[command(after_help = "Example:\n  pillarbox dead list --type order.placed")]
    List(List),
    /// Show one dead event with its payload, headers and failed attempts
    #[command(after_help = "Example:\n  pillarbox dead show 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR")]
    Show {
        /// Event id
        id: String,
    },
    /// Replay dead events: status new, attempts reset
    #[command(after_help = "\
Examples:
  pillarbox dead replay 01JCXB6V5T1XKQ9Y3WD2Q4M8ZR
  pillarbox dead replay --type order.placed --dry-run
  pillarbox dead replay --all --yes

Events are replayed in transactions of 500; an event that goes dead again during the run stays dead.")]
    Replay(Change),
    /// Delete dead events; a group that one of them blocks continues with its next event
    #[command(after_help = "Example:\n  pillarbox dead discard --type order.test --yes")]
    Discard(Change),
}

/// Arguments of `dead list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    filter: Filter,
    /// List all, without a limit
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Sort order
    #[arg(long, default_value = "oldest")]
    order: Order,
    #[command(flatten)]
    limit: Limit,
}

/// Arguments of `dead replay` and `dead discard`.
#[derive(Debug, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    filter: Filter,
    /// All dead events
    #[arg(long, conflicts_with_all = ["ids", "event_type", "aggregate_type"])]
    all: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Options that select dead events.
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Event ids
    #[arg(value_name = "ID", conflicts_with_all = ["event_type", "aggregate_type"])]
    ids: Vec<String>,
    /// Only events of this type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events of this aggregate type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.event_type.is_none() && self.aggregate_type.is_none()
    }

    fn select(&self) -> Select {
        Select {
            ids: self.ids.iter().map(|id| EventId::from_row(id.as_str())).collect(),
            statuses: vec![Status::Dead],
            event_type: self.event_type.clone(),
            aggregate_type: self.aggregate_type.clone(),
            ..Select::default()
        }
    }
}

impl Dead {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::List(list) => list.run(session).await,
            Self::Show { id } => {
                let store = session.store().await?;
                let shown = find(&*store, &id).await?;
                must_be_dead(&id, shown.record.status)?;
                session.output.answer(&Whole::from(&shown))
            }
            Self::Replay(change) => change.run(session, &REPLAY).await,
            Self::Discard(change) => change.run(session, &DISCARD).await,
        }
    }
}

impl List {
    async fn run(self, session: &Session) -> CommandResult {
        let store = session.store().await?;
        let select = self.filter.select();
        let limit = if self.all { u64::MAX } else { self.limit.limit };
        let events = paging::read(&*store, select.clone(), self.order, limit).await?;
        let shown = events.len() as u64;
        session.output.answer(&Listed(events))?;
        if shown == limit {
            let total = store.admin().count(select).await?;
            session.output.note(&format!("{} of {}", count(shown), counted(total, "dead event")));
        }
        Ok(())
    }
}

fn must_be_dead(id: &str, status: Status) -> CommandResult {
    match status {
        Status::Dead => Ok(()),
        _ => Err(CommandError::not_found(format!("event {id:?} is not dead but {status}"))),
    }
}

/// The action and the wording of a command that changes dead events.
struct ActionWords {
    verb: &'static str,
    did: &'static str,
    doing: &'static str,
    change: Batch,
}

/// Changes one batch and returns the number of changed rows.
type Batch = for<'a> fn(&'a dyn Table, Select, usize) -> pillarbox::port::StoreFuture<'a, u64>;

const REPLAY: ActionWords = ActionWords {
    verb: "replay",
    did: "replayed",
    doing: "replaying",
    change: |store, select, limit| store.admin().replay(Replay { select, limit, by: operator(), now: None }),
};
const DISCARD: ActionWords = ActionWords {
    verb: "discard",
    did: "discarded",
    doing: "discarding",
    change: |store, select, limit| {
        store.admin().discard(Discard { select, limit, by: operator(), now: None })
    },
};

impl Change {
    async fn run(self, session: &Session, words: &ActionWords) -> CommandResult {
        if self.filter.is_empty() && !self.all {
            return Err(CommandError::usage(format!("nothing says which events to {}", words.verb))
                .hint("name events by id, or give --type, --aggregate-type or --all"));
        }
        let store = session.store().await?;
        let changed = |dry_run, count| Changed {
            action: words.verb,
            dry_run,
            count,
            sentence: Sentence { did: words.did, what: "dead event" },
        };
        let expected = self.expected(&*store).await?;
        if self.consent.dry_run {
            return session.output.answer(&changed(true, expected));
        }
        if expected == 0 {
            session.output.answer(&changed(false, 0))?;
            return self.all_were_there(0);
        }
        if self.filter.ids.is_empty() {
            let events = counted(expected, "dead event");
            let question = format!("{} {events} on {}?", words.verb, store.facts().name);
            self.consent.obtain(session.output, &question)?;
        }
        let progress = session.output.progress(words.doing, expected);
        let mut total = 0;
        for select in self.snapshots(&*store).await? {
            total += in_batches(&progress, async |limit| -> Result<u64, StoreError> {
                (words.change)(&*store, select.clone(), limit).await
            })
            .await?;
        }
        drop(progress);
        session.output.answer(&changed(false, total))?;
        self.all_were_there(total)
    }

    /// Fails if events that were named one by one were changed by somebody else meanwhile.
    fn all_were_there(&self, changed: u64) -> CommandResult {
        let named = self.filter.ids.iter().collect::<BTreeSet<_>>().len() as u64;
        if changed >= named {
            return Ok(());
        }
        let events = counted(named - changed, "event");
        Err(CommandError::not_found(format!(
            "{events} of those named were replayed or discarded by another process"
        )))
    }

    /// The number of selected events. Fails if a named event does not exist or is not dead.
    async fn expected(&self, store: &dyn Table) -> CommandResult<u64> {
        for id in &self.filter.ids {
            must_be_dead(id, find(store, id).await?.record.status)?;
        }
        Ok(store.admin().count(self.filter.select()).await?)
    }

    /// Selects only events that are dead by now. Otherwise a replay of events that go dead again would never
    /// end.
    async fn snapshots(&self, store: &dyn Table) -> CommandResult<Vec<Select>> {
        let ended_before = Some(database_now(store).await?);
        let select = Select { ended_before, ..self.filter.select() };
        if select.ids.len() <= BATCH {
            return Ok(vec![select]);
        }
        let chunks = select.ids.chunks(BATCH);
        Ok(chunks.map(|ids| Select { ids: ids.to_vec(), ..select.clone() }).collect())
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listed(Vec<Summary>);

impl Printable for Listed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no dead events".to_owned(),
            events => dead_table(ink, events),
        }
    }
}
