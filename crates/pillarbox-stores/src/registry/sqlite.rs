//! SQLite: from the options of the list to those of its store.

use std::sync::Arc;

use pillarbox::port::{ErrorKind, Store, StoreError};
use pillarbox_sqlite::{SqliteStore, SqliteStoreBuilder};

use crate::connect::{MissingFile, Options};
use crate::error::ConnectError;

pub(crate) async fn connect(url: &str, options: &Options) -> Result<Arc<dyn Store>, ConnectError> {
    let builder = builder(url, options)?;
    // Opening waits for locks of other processes.
    let opened = tokio::task::spawn_blocking(|| builder.open()).await;
    let store = opened.map_err(|_| {
        StoreError::new(ErrorKind::Unexpected, "open", "sqlite", "opening the file did not come to an end")
    })??;
    Ok(Arc::new(store))
}

pub(crate) fn schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    Ok(builder(url, options)?.schema_sql())
}

fn builder(url: &str, options: &Options) -> Result<SqliteStoreBuilder, ConnectError> {
    if options.schema.is_some() {
        return Err(ConnectError::NoSuchOption { store: "sqlite", option: "schema" });
    }
    let missing = match options.missing {
        MissingFile::Create => pillarbox_sqlite::Missing::Create,
        MissingFile::Refuse => pillarbox_sqlite::Missing::Refuse,
    };
    let builder = SqliteStore::builder_from_url(url)?.layout(options.layout());
    Ok(builder.table(options.table()).missing(missing))
}
