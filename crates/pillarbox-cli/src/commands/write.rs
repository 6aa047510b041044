//! `write`: writes events in their own transactions.

mod ids;

use clap::Args;
use pillarbox::model::{Event, EventBuilder, NewRow, Placement};
use pillarbox::port::{self, Table};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::counted;

use super::envelope::Envelope;
use super::{Session, payload};
use crate::bulk::BATCH;
use ids::Ids;

/// Maximum bytes of payloads in one transaction.
const BATCH_BYTES: usize = 8 * 1_024 * 1_024;
const COUNT_MAX: u64 = 10_000_000;

/// Arguments of `write`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox write --type order.placed --payload '{\"id\":7}' --aggregate-type Order --aggregate-id 7
  pillarbox write --type report.due --payload @report.json --due 2h --header source=cron
  pillarbox write --type load.test --count 10000

Many are written in transactions of up to 500; ids are printed as each is committed.")]
pub(crate) struct Write {
    /// The event type
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The payload: text as it is, `@FILE` for a file, `@-` for standard input
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}", allow_hyphen_values = true)]
    payload: String,
    /// Aggregate type: what kind of thing the event is about
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Aggregate id; without --group, events of one aggregate keep their order
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Group within which events keep their order
    #[arg(long)]
    group: Option<String>,
    /// Tenant, passed through
    #[arg(long)]
    tenant: Option<String>,
    #[command(flatten)]
    envelope: Envelope,
    /// Write this many events with the same content
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
}

impl Write {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if self.count > 1 && self.envelope.message_id.is_some() {
            return Err(CommandError::usage("--count and --message-id exclude each other")
                .hint("events with the same message id are one event"));
        }
        // Checked before the store is opened, so that a mistake in the arguments fails fast.
        let plain = self.fields()?;
        let store = session.store().await?;
        let limits = store.facts().limits;
        let builder = payload::read(&self.payload, limits.payload)?.put_into(plain);
        let first = builder.clone().build_within(&limits)?;
        let ids = Ids::begin(session.output)?;
        let written = self.write_all(session, &*store, builder, first, &ids).await;
        ids.end()?;
        written
    }

    fn fields(&self) -> CommandResult<EventBuilder> {
        let mut builder = self.envelope.put_into(Event::builder(self.event_type.as_str()))?;
        if let Some(kind) = &self.aggregate_type {
            builder = builder.aggregate_type(kind.as_str());
        }
        if let Some(id) = &self.aggregate_id {
            builder = builder.aggregate_id(id);
        }
        if let Some(group) = &self.group {
            builder = builder.group(group);
        }
        if let Some(tenant) = &self.tenant {
            builder = builder.tenant(tenant);
        }
        Ok(builder)
    }

    async fn write_all(
        &self,
        session: &Session,
        store: &dyn Table,
        builder: EventBuilder,
        first: Event,
        ids: &Ids,
    ) -> CommandResult {
        let progress = session.output.progress("writing", self.count);
        let per_batch = (BATCH_BYTES / first.weight()).clamp(1, BATCH) as u64;
        let mut done: u64 = 0;
        while done < self.count {
            let size = (self.count - done).min(per_batch);
            let rows = (0..size).map(|_| {
                let event = builder.clone().build_within(&store.facts().limits)?;
                Ok(NewRow { event, placement: Placement::Slot })
            });
            let rows = rows.collect::<CommandResult<Vec<NewRow>>>()?;
            let written = store.write(port::Write { rows, now: None }).await.map_err(|error| {
                let failure = CommandError::from(error);
                if done > 0 {
                    failure.during(format!("stopped after {}", counted(done, "event")))
                } else {
                    failure
                }
            })?;
            if written.iter().any(|row| !row.fresh) {
                session.output.note("an event with this message id was there already: nothing was added");
            }
            ids.print(&written)?;
            done += size;
            progress.add(size);
        }
        Ok(())
    }
}
