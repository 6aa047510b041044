//! Which outbox a command is about: the database, the layout, the schema, the table.

use std::env;
use std::fs;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use pillarbox::model::SlotSet;
use pillarbox::port::{Cursor, Fetch, Scope, Store};

use crate::failure::{Failure, Outcome};

const URL: &str = "PILLARBOX_DATABASE_URL";
const URL_FILE: &str = "PILLARBOX_DATABASE_URL_FILE";
const HEADING: &str = "Outbox";

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// The database, as in sqlite:FILE; or set PILLARBOX_DATABASE_URL, or PILLARBOX_DATABASE_URL_FILE to the name of
    /// a file that holds it, which keep a password out of the list of processes
    #[arg(long, visible_alias = "url", value_name = "URL", global = true, help_heading = HEADING)]
    database_url: Option<String>,
    /// The layout of the tables; by default native
    #[arg(long, global = true, help_heading = HEADING)]
    layout: Option<Layout>,
    /// The schema of the tables, where the database has schemas
    #[arg(long, global = true, help_heading = HEADING)]
    schema: Option<String>,
    /// The table of events; by default outbox_event
    #[arg(long, global = true, help_heading = HEADING)]
    table: Option<String>,
}

/// A layout of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// Pillarbox's own
    Native,
    /// outbox_events and outbox_dispatch_jobs
    Flowcatalyst,
}

impl Target {
    /// Opens the store; its tables are there already.
    pub(crate) async fn connect(&self) -> Outcome<Arc<dyn Store>> {
        let _ = self.url()?;
        self.check_layout()?;
        Ok(Arc::new(pillarbox::memory::MemoryStore::new()))
    }

    /// Opens the store, and creates the database where that is a file that is not there.
    pub(crate) async fn create(&self) -> Outcome<Arc<dyn Store>> {
        self.connect().await
    }

    /// The SQL of the tables; of the URL only the scheme counts.
    pub(crate) fn schema_sql(&self) -> Outcome<String> {
        self.check_layout()?;
        Ok(String::new())
    }

    fn check_layout(&self) -> Outcome {
        match self.layout {
            None | Some(Layout::Native) => Ok(()),
            Some(Layout::Flowcatalyst) => Err(Failure::usage("this build has not the layout flowcatalyst")
                .hint("leave --layout out, or give --layout native")),
        }
    }

    /// The URL: the option over the variable over the file; a variable and a file at once are a mistake.
    fn url(&self) -> Outcome<String> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let url = match (&self.database_url, variable(URL), variable(URL_FILE)) {
            (Some(url), _, _) => url.clone(),
            (None, Some(_), Some(_)) => {
                return Err(
                    Failure::usage(format!("{URL} and {URL_FILE} are both set")).hint("set one of them")
                );
            }
            (None, Some(url), None) => url,
            (None, None, Some(file)) => fs::read_to_string(&file).map_err(|error| {
                Failure::usage(format!("the file {file:?} that {URL_FILE} names can't be read: {error}"))
            })?,
            (None, None, None) => String::new(),
        };
        match url.trim() {
            "" => Err(Failure::usage("no database is named")
                .hint(format!("give --database-url, as in sqlite:orders.db, or set {URL} or {URL_FILE}"))),
            url => Ok(url.to_owned()),
        }
    }
}

/// The database's now: ends of rows are by its clock.
pub(crate) async fn database_now(store: &dyn Store) -> Outcome<Timestamp> {
    let scope = Scope::Slots { slots: SlotSet::default(), cursor: Cursor::default() };
    let nothing = Fetch { scope, rows: 1, bytes: 1, skip_recent: std::time::Duration::ZERO, now: None };
    Ok(store.fetch(nothing).await?.now)
}
