//! Opens the table of a URL.

use pillarbox::model::{Layout, TableName};
use pillarbox::port::{AnyTable, ErrorKind, StoreError};

use crate::error::ConnectError;
use crate::registry::kind_of;

/// Options for opening a store that its URL does not contain.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The table of events. Default: `outbox_event`, or `outbox_events` in the flowcatalyst layout.
    pub table: TableName,
    /// The layout of the tables. Default: detected; native if there are no tables.
    pub layout: Option<Layout>,
    /// The schema of the tables, for databases with schemas. Default: that of the connection.
    pub schema: Option<String>,
    /// What to do if the database file does not exist. Default: create it.
    pub missing: MissingFile,
}

impl Options {
    /// The given layout, or else native.
    pub(crate) fn layout(&self) -> Layout {
        self.layout.unwrap_or_default()
    }

    /// The given table, or else the default table of the layout.
    pub(crate) fn table(&self) -> TableName {
        if self.table == TableName::default() { TableName::usual(self.layout()) } else { self.table.clone() }
    }
}

/// What to do if the database file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingFile {
    /// Create an empty file.
    #[default]
    Create,
    /// Fail with an error.
    Refuse,
}

/// Opens the table of a URL. Must be called on a tokio runtime.
///
/// Without a layout it looks for existing tables. If the database is unavailable, this may still succeed, and
/// the first call on the table fails.
pub async fn connect(url: &str, options: &Options) -> Result<AnyTable, ConnectError> {
    let store = open(url, options).await?;
    if options.layout.is_some() {
        return Ok(store);
    }
    let is_missing = |checked: Result<(), StoreError>| checked.is_err_and(|e| e.kind() == ErrorKind::Schema);
    if is_missing(store.admin().check().await) {
        let items = Options { layout: Some(Layout::Flowcatalyst), ..options.clone() };
        // A store that does not support this layout has no such table.
        let Ok(other) = open(url, &items).await else { return Ok(store) };
        match other.admin().check().await {
            Ok(()) => return Ok(other),
            // The tables exist, but this user has no access to them: the caller can ask which rights are missing.
            Err(error) if error.kind() == ErrorKind::Permission => return Ok(other),
            Err(_) => {}
        }
    }
    Ok(store)
}

/// Opens the table with the type that fits its layout.
pub(crate) async fn open(url: &str, options: &Options) -> Result<AnyTable, ConnectError> {
    let opener = kind_of(url)?.opener()?;
    match options.layout() {
        Layout::Native => (opener.open)(url, options).await.map(AnyTable::Native),
        Layout::Flowcatalyst => (opener.open_items)(url, options).await.map(AnyTable::Items),
    }
}

/// The SQL that creates the tables of a URL. Connects to nothing.
pub fn schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    let opener = kind_of(url)?.opener()?;
    let schema_sql = options.layout().either(opener.schema_sql, opener.items_schema_sql);
    schema_sql(url, options)
}
