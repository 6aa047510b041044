//! The options that select an outbox: database, layout, schema and table.

use std::env;
use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use pillarbox::model::flowcatalyst::DISPATCH_JOBS;
use pillarbox::model::{Layout, TableName};
use pillarbox::port::{AnyTable, Table};
use pillarbox::redact;
use pillarbox_relay::config::read_secret_file;
use pillarbox_stores::{ConnectError, MissingFile, Options, PendingItems};
use pillarbox_terminal::error::{CommandError, CommandResult};

const URL: &str = "PILLARBOX_DATABASE_URL";
const URL_FILE: &str = "PILLARBOX_DATABASE_URL_FILE";
const HEADING: &str = "Outbox";

/// The options that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Database URL, such as sqlite:FILE or postgres://USER@HOST/DATABASE. To keep a password out of the
    /// process list, set PILLARBOX_DATABASE_URL, or PILLARBOX_DATABASE_URL_FILE to the path of a file that
    /// contains it
    #[arg(long, visible_alias = "url", value_name = "URL", global = true, help_heading = HEADING)]
    database_url: Option<String>,
    /// Table layout: native, or flowcatalyst for the tables of a FlowCatalyst outbox [default: detected;
    /// native if there are no tables]
    #[arg(long, global = true, help_heading = HEADING, value_parser = layout())]
    layout: Option<Layout>,
    /// Schema of the tables, on PostgreSQL [default: the first of the search path]
    #[arg(long, global = true, help_heading = HEADING)]
    schema: Option<String>,
    /// Table of events [default: outbox_event; outbox_events in the flowcatalyst layout]
    #[arg(long, global = true, help_heading = HEADING)]
    table: Option<String>,
}

/// Parses the value of `--layout`.
fn layout() -> impl TypedValueParser<Value = Layout> {
    PossibleValuesParser::new(Layout::ALL.map(Layout::as_str)).try_map(|word| Layout::parse(&word))
}

impl Target {
    /// Opens an existing store.
    pub(crate) async fn connect(&self) -> CommandResult<AnyTable> {
        self.open(MissingFile::Refuse).await
    }

    /// Opens every table of the outbox, with its name: in the flowcatalyst layout there may be two.
    pub(crate) async fn connect_all(&self) -> CommandResult<Vec<(String, AnyTable)>> {
        let first = self.connect().await?;
        let layout = first.facts().layout();
        let name = self.table.clone().unwrap_or_else(|| TableName::usual(layout).as_str().to_owned());
        let mut tables = vec![(name, first)];
        if self.table.is_none() && layout == Layout::Flowcatalyst {
            let jobs = TableName::new(DISPATCH_JOBS)?;
            let name = jobs.as_str().to_owned();
            let options = Options { table: jobs, layout: Some(layout), ..self.options(MissingFile::Refuse)? };
            let url = self.url()?;
            let jobs =
                pillarbox_stores::connect(&url, &options).await.map_err(|error| refused(&error, &url))?;
            if jobs.admin().check().await.is_ok() {
                tables.push((name, jobs));
            }
        }
        Ok(tables)
    }

    /// Whether `--layout` is given.
    pub(crate) fn names_layout(&self) -> bool {
        self.layout.is_some()
    }

    /// Opens the tables to migrate, and creates a missing database file. Without `--layout`, the layout of
    /// existing tables is used: native tables beside those of another program would look like an empty
    /// outbox.
    pub(crate) async fn to_migrate(&self) -> CommandResult<Vec<AnyTable>> {
        let url = self.url()?;
        let first = self.open(MissingFile::Create).await?;
        let mut stores = vec![first.clone()];
        if self.table.is_none() && first.items().is_some() {
            let (table, layout) = (TableName::new(DISPATCH_JOBS)?, Some(first.facts().layout()));
            let options = Options { table, layout, ..self.options(MissingFile::Refuse)? };
            let jobs =
                pillarbox_stores::connect(&url, &options).await.map_err(|error| refused(&error, &url))?;
            // With `--layout` both tables are wanted. If the layout was detected, only existing tables are
            // migrated.
            if self.layout.is_some() || jobs.admin().check().await.is_ok() {
                stores.push(jobs);
            }
        }
        Ok(stores)
    }

    /// The pending events beside which the tables of this store should not be created.
    pub(crate) async fn pending_items_beside(&self, store: &AnyTable) -> CommandResult<Option<PendingItems>> {
        let options = self.options(MissingFile::Refuse)?;
        Ok(pillarbox_stores::pending_items_beside(&self.url()?, &options, store).await?)
    }

    /// The options that are given, by the names of the relay's keys.
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        let layout = self.layout.map(|layout| layout.as_str().to_owned());
        let given = [
            ("database-url", self.database_url.clone()),
            ("layout", layout),
            ("schema", self.schema.clone()),
            ("table", self.table.clone()),
        ];
        given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// The SQL that creates the tables. Connects to nothing.
    pub(crate) fn schema_sql(&self) -> CommandResult<String> {
        let url = self.url()?;
        let options = self.options(MissingFile::Refuse)?;
        // A scheme such as `sqlite:` is enough here, so it is completed to a valid URL.
        let url = if url.ends_with(':') { format!("{url}outbox") } else { url };
        let both = self.table.is_none() && self.layout == Some(Layout::Flowcatalyst);
        let jobs = both.then(|| TableName::new(DISPATCH_JOBS)).transpose()?;
        let tables = [Some(options.table.clone()), jobs].into_iter().flatten();
        let scripts = tables.map(|table| {
            let options = Options { table, ..options.clone() };
            pillarbox_stores::schema_sql(&url, &options).map_err(|error| refused(&error, &url))
        });
        Ok(scripts.collect::<CommandResult<Vec<String>>>()?.join("\n"))
    }

    async fn open(&self, missing: MissingFile) -> CommandResult<AnyTable> {
        let url = self.url()?;
        let options = self.options(missing)?;
        let opened = pillarbox_stores::connect(&url, &options).await;
        opened.map_err(|error| refused(&error, &url))
    }

    fn options(&self, missing: MissingFile) -> CommandResult<Options> {
        let table = self.table.as_deref().map(TableName::new).transpose()?.unwrap_or_default();
        Ok(Options { table, layout: self.layout, schema: self.schema.clone(), missing })
    }

    /// The database URL: the option overrides the environment variable and the file. It is an error to set
    /// both of the latter.
    fn url(&self) -> CommandResult<String> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let url = match (&self.database_url, variable(URL), variable(URL_FILE)) {
            (Some(url), _, _) => url.clone(),
            (None, Some(_), Some(_)) => {
                return Err(
                    CommandError::usage(format!("{URL} and {URL_FILE} are both set")).hint("set one of them")
                );
            }
            (None, Some(url), None) => url,
            (None, None, Some(file)) => read_secret_file(Path::new(&file)).map_err(|error| {
                CommandError::usage(format!("the file {file:?} that {URL_FILE} names can't be read: {error}"))
            })?,
            (None, None, None) => String::new(),
        };
        match url.trim() {
            "" => Err(CommandError::usage("no database is named")
                .hint(format!("give --database-url, as in sqlite:orders.db or postgres://localhost/shop, or set {URL} or {URL_FILE}"))),
            url => Ok(url.to_owned()),
        }
    }
}

/// The current time of the database, whose clock sets the timestamps of rows.
pub(crate) async fn database_now(store: &dyn Table) -> CommandResult<Timestamp> {
    Ok(store.now().await?)
}

/// The error of a store that can't be opened, without the credentials of the URL.
fn refused(error: &ConnectError, url: &str) -> CommandError {
    CommandError::of_kind(error.kind(), &redact::quoted(&error.to_string(), url))
}
