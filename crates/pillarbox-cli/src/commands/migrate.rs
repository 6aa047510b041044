//! `migrate`: creates or upgrades the tables, or prints how.

use clap::Args;
use pillarbox::model::Layout;
use pillarbox_terminal::failure::Outcome;
use pillarbox_terminal::output::{Answer, Ink};
use serde::Serialize;

use super::Session;

/// How to migrate.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox migrate --database-url sqlite:orders.db
  pillarbox migrate --database-url postgres://me@localhost/shop --schema shop
  pillarbox migrate --database-url postgres://me@localhost/shop --layout flowcatalyst --table outbox_dispatch_jobs
  pillarbox migrate --database-url postgres: --print > outbox.sql")]
pub(crate) struct Migrate {
    /// Only print the SQL; the database is not touched, nor need it be there
    #[arg(long)]
    print: bool,
}

impl Migrate {
    pub(crate) async fn run(self, session: &Session) -> Outcome {
        if self.print {
            return session.output.answer(&Printed { sql: session.target.schema_sql()? });
        }
        let mut tables = Vec::new();
        for store in session.target.to_migrate().await? {
            let layout = store.facts().layout();
            let pillarbox::port::Migrated { from, to } = store.admin().migrate().await?;
            tables.push(Migrated { store: store.facts().kind, layout, from, to });
        }
        if !session.target.names_layout() && tables.iter().any(|table| table.layout == Layout::Flowcatalyst) {
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

#[derive(Debug, Serialize)]
struct Printed {
    sql: String,
}

impl Answer for Printed {
    fn for_people(&self, _: Ink) -> String {
        self.sql.trim_end().to_owned()
    }
}

/// What was done to several tables.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Several(Vec<Migrated>);

impl Answer for Several {
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

impl Answer for Migrated {
    fn for_people(&self, _: Ink) -> String {
        let Self { from, to, .. } = self;
        match from {
            0 => format!("created the tables, version {to}"),
            _ if from == to => format!("nothing to do: the tables are of version {to}"),
            _ => format!("upgraded the tables from version {from} to {to}"),
        }
    }
}
