//! `migrate`: creates or upgrades the tables, or prints how.

use clap::Args;
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
        let store = session.target.create().await?;
        let migrated = store.admin().migrate().await?;
        session.output.answer(&Migrated { store: store.facts().kind, from: migrated.from, to: migrated.to })
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

#[derive(Debug, Serialize)]
struct Migrated {
    store: &'static str,
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
