//! From a URL to a table.

use pillarbox::model::{Layout, TableName};
use pillarbox::port::{AnyTable, ErrorKind, StoreError};

use crate::error::ConnectError;
use crate::registry::kind_of;

/// What a store is opened with beside its URL. The default is what the URL alone gives.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The table of events. Default: `outbox_event`, which in the flowcatalyst layout stands for `outbox_events`.
    pub table: TableName,
    /// The layout of the tables. Default: that of the tables that are there, and the native one where there are none.
    pub layout: Option<Layout>,
    /// The schema the tables are in, for stores that have schemas. Default: the connection's own.
    pub schema: Option<String>,
    /// What to do about a database file that is not there. Default: make an empty one.
    pub missing: MissingFile,
}

impl Options {
    /// The layout that is named, else the native one.
    pub(crate) fn layout(&self) -> Layout {
        self.layout.unwrap_or_default()
    }

    /// The table of this layout.
    pub(crate) fn table(&self) -> TableName {
        if self.table == TableName::default() { TableName::usual(self.layout()) } else { self.table.clone() }
    }
}

/// What to do about a database file that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingFile {
    /// Make an empty one.
    #[default]
    Create,
    /// Fail with an error.
    Refuse,
}

/// Opens the table that a URL names. Must be called on a tokio runtime.
///
/// Where no layout is named, the tables are looked for; a database that can't be reached says so with the first call.
pub async fn connect(url: &str, options: &Options) -> Result<AnyTable, ConnectError> {
    let store = open(url, options).await?;
    if options.layout.is_some() {
        return Ok(store);
    }
    let is_missing = |checked: Result<(), StoreError>| checked.is_err_and(|e| e.kind() == ErrorKind::Schema);
    if is_missing(store.admin().check().await) {
        let items = Options { layout: Some(Layout::Flowcatalyst), ..options.clone() };
        // A store without this layout has nothing to look for.
        let Ok(other) = open(url, &items).await else { return Ok(store) };
        match other.admin().check().await {
            Ok(()) => return Ok(other),
            // The tables are there, only not for this user.
            Err(error) if error.kind() == ErrorKind::Permission => return Err(error.into()),
            Err(_) => {}
        }
    }
    Ok(store)
}

/// The outbox of another layout in the same database, if there is one: what is pending in it is not delivered with this one.
pub async fn beside(url: &str, options: &Options, layout: Layout) -> Option<AnyTable> {
    let layout = Layout::ALL.into_iter().find(|other| *other != layout)?;
    let options = Options {
        layout: Some(layout),
        table: TableName::usual(layout),
        missing: MissingFile::Refuse,
        ..options.clone()
    };
    let other = open(url, &options).await.ok()?;
    other.admin().check().await.is_ok().then_some(other)
}

/// Opens the table as the type of its layout.
async fn open(url: &str, options: &Options) -> Result<AnyTable, ConnectError> {
    let opener = kind_of(url)?.opener()?;
    match options.layout() {
        Layout::Native => (opener.open)(url, options).await.map(AnyTable::Native),
        Layout::Flowcatalyst => (opener.open_items)(url, options).await.map(AnyTable::Items),
    }
}

/// The statements that make the tables of the store that a URL names, without opening it.
pub fn schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    let opener = kind_of(url)?.opener()?;
    let schema_sql = options.layout().either(opener.schema_sql, opener.items_schema_sql);
    schema_sql(url, options)
}
