//! `migrate`: creates or upgrades the tables, or prints the SQL.

use clap::Args;
use pillarbox::model::Layout;
use pillarbox::port::AnyTable;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::{Ink, Printable};
use serde::Serialize;

use super::Session;

/// Arguments of `migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox migrate --database-url sqlite:orders.db
  pillarbox migrate --database-url postgres://me@localhost/shop --schema shop
  pillarbox migrate --database-url postgres://me@localhost/shop --layout flowcatalyst --table outbox_dispatch_jobs
  pillarbox migrate --database-url postgres: --print > outbox.sql")]
pub(crate) struct Migrate {
    /// Print the SQL without connecting to the database
    #[arg(long)]
    print: bool,
    /// Create native tables even if events are pending in tables of another layout
    #[arg(long, conflicts_with = "print")]
    force: bool,
}

impl Migrate {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if self.print {
            return session.output.answer(&Printed { sql: session.target.schema_sql()? });
        }
        let stores = session.target.to_migrate().await?;
        let mut tables = Vec::new();
        for store in &stores {
            if !self.force {
                refuse_beside_pending(session, store).await?;
            }
            let layout = store.facts().layout();
            let pillarbox::port::Migrated { from, to } = store.admin().migrate().await?;
            tables.push(Migrated { store: store.facts().kind, layout, from, to });
        }
        if !session.target.names_layout() && stores.iter().any(|store| store.items().is_some()) {
            session
                .output
                .note("found tables of the layout flowcatalyst; --layout native makes Pillarbox's own");
        }
        match <[Migrated; 1]>::try_from(tables) {
            Ok([one]) => session.output.answer(&one),
            Err(several) => session.output.answer(&Several(several)),
        }
    }
}

/// Refuses to create native tables beside tables of items with pending events.
async fn refuse_beside_pending(session: &Session, store: &AnyTable) -> CommandResult {
    match session.target.pending_items_beside(store).await? {
        None => Ok(()),
        Some(pending) => Err(CommandError::conflict(pending.to_string()).hint(
            "leave --layout and --table out to use the tables that are there, or add --force to have both",
        )),
    }
}

#[derive(Debug, Serialize)]
struct Printed {
    sql: String,
}

impl Printable for Printed {
    fn for_people(&self, _: Ink) -> String {
        self.sql.trim_end().to_owned()
    }
}

/// The results of several tables.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Several(Vec<Migrated>);

impl Printable for Several {
    fn for_people(&self, ink: Ink) -> String {
        self.0.iter().map(|one| one.for_people(ink)).collect::<Vec<_>>().join("\n")
    }
}

#[derive(Debug, Serialize)]
struct Migrated {
    store: &'static str,
    layout: Layout,
    from: u32,
    to: u32,
}

impl Printable for Migrated {
    fn for_people(&self, _: Ink) -> String {
        let Self { from, to, .. } = self;
        match from {
            0 => format!("created the tables, version {to}"),
            _ if from == to => format!("nothing to do: the tables are of version {to}"),
            _ => format!("upgraded the tables from version {from} to {to}"),
        }
    }
}
