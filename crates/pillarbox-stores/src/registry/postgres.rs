//! Opens PostgreSQL stores with the options of the registry.

#![expect(
    clippy::unused_async,
    reason = "every store of the list is opened the same way; this one connects later"
)]

use std::sync::Arc;

use pillarbox::hosts::is_loopback;
use pillarbox::model::TableName;
use pillarbox::port::{ErrorKind, ItemStore, Store, StoreError};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgSslMode};
use pillarbox_postgres::{PostgresStore, PostgresStoreBuilder};

use crate::connect::Options;
use crate::error::ConnectError;

pub(crate) async fn open(url: &str, options: &Options) -> Result<Arc<dyn Store>, ConnectError> {
    Ok(Arc::new(builder(url, options)?.open()))
}

pub(crate) async fn open_items(url: &str, options: &Options) -> Result<Arc<dyn ItemStore>, ConnectError> {
    Ok(Arc::new(builder(url, options)?.open_items()))
}

pub(crate) fn schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    Ok(builder(url, options)?.schema_sql())
}

pub(crate) fn items_schema_sql(url: &str, options: &Options) -> Result<String, ConnectError> {
    Ok(builder(url, options)?.items_schema_sql())
}

fn builder(url: &str, options: &Options) -> Result<PostgresStoreBuilder, ConnectError> {
    let builder = PostgresStore::builder_from_url(url)?.table(options.table());
    let Some(schema) = &options.schema else { return Ok(builder) };
    let schema = TableName::new(schema.as_str()).map_err(|invalid| {
        StoreError::new(ErrorKind::InvalidInput, "open", "postgres", format!("the schema's name: {invalid}"))
    })?;
    Ok(builder.schema(schema))
}

pub(crate) fn tls_advice(url: &str) -> Option<&'static str> {
    let options: PgConnectOptions = url.parse().ok()?;
    let is_local = options.get_socket().is_some() || is_loopback(options.get_host());
    let is_open = matches!(options.get_ssl_mode(), PgSslMode::Prefer | PgSslMode::Allow);
    (is_open && !is_local).then_some(
        "add sslmode=verify-full to the URL, and sslrootcert=FILE for certificates of your own authority; sslmode=disable says that you trust the network",
    )
}
