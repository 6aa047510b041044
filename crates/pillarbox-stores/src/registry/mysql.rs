//! Opens MySQL and MariaDB stores with the options of the registry.

#![expect(
    clippy::unused_async,
    reason = "every store of the list is opened the same way; this one connects later"
)]

use std::sync::Arc;

use pillarbox::hosts::is_loopback;
use pillarbox::port::{ItemStore, Store};
use pillarbox_mysql::sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use pillarbox_mysql::{MysqlStore, MysqlStoreBuilder};

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

/// Refuses the option `schema`: in MySQL a schema is a database, which the URL names.
fn builder(url: &str, options: &Options) -> Result<MysqlStoreBuilder, ConnectError> {
    if options.schema.is_some() {
        return Err(ConnectError::NoSuchOption { store: "mysql", option: "schema" });
    }
    Ok(MysqlStore::builder_from_url(url)?.table(options.table()))
}

pub(crate) fn tls_advice(url: &str) -> Option<&'static str> {
    let options: MySqlConnectOptions = url.parse().ok()?;
    let is_local = options.get_socket().is_some() || is_loopback(options.get_host());
    let is_open = matches!(options.get_ssl_mode(), MySqlSslMode::Preferred);
    (is_open && !is_local).then_some(
        "add ssl-mode=VERIFY_IDENTITY to the URL, and ssl-ca=FILE for certificates of your own authority; ssl-mode=DISABLED says that you trust the network",
    )
}
