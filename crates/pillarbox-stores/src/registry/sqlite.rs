//! Opens SQLite stores with the options of the registry.

use std::sync::Arc;

use pillarbox::port::{ErrorKind, ItemStore, Store, StoreError};
use pillarbox_sqlite::{SqliteStore, SqliteStoreBuilder};

use crate::connect::{MissingFile, Options};
use crate::error::ConnectError;

pub(crate) async fn open(url: &str, options: &Options) -> Result<Arc<dyn Store>, ConnectError> {
    let builder = builder(url, options)?;
    Ok(Arc::new(blocking(|| builder.open()).await?))
}

pub(crate) async fn open_items(url: &str, options: &Options) -> Result<Arc<dyn ItemStore>, ConnectError> {
    let builder = builder(url, options)?;
    Ok(Arc::new(blocking(|| builder.open_items()).await?))
}

/// Opens on a blocking thread, because opening waits for locks of other processes.
async fn blocking<S: Send + 'static>(
    open: impl FnOnce() -> Result<S, StoreError> + Send + 'static,
) -> Result<S, StoreError> {
    tokio::task::spawn_blocking(open).await.map_err(|_| {
        StoreError::new(ErrorKind::Unexpected, "open", "sqlite", "opening the file did not come to an end")
    })?
}

pub(crate) fn schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    Ok(builder(url, options)?.schema_sql())
}

pub(crate) fn items_schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    Ok(builder(url, options)?.items_schema_sql())
}

fn builder(url: &str, options: &Options) -> Result<SqliteStoreBuilder, ConnectError> {
    if options.schema.is_some() {
        return Err(ConnectError::NoSuchOption { store: "sqlite", option: "schema" });
    }
    let missing = match options.missing {
        MissingFile::Create => pillarbox_sqlite::Missing::Create,
        MissingFile::Refuse => pillarbox_sqlite::Missing::Refuse,
    };
    Ok(SqliteStore::builder_from_url(url)?.table(options.table()).missing(missing))
}

/// A file needs no TLS.
pub(crate) fn tls_advice(_: &str) -> Option<&'static str> {
    None
}
