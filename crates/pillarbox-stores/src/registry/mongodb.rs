//! Opens MongoDB stores with the options of the registry.

use std::sync::Arc;

use pillarbox::hosts::is_loopback;
use pillarbox::port::{ItemStore, Store};
use pillarbox_mongodb::mongodb::options::{ConnectionString, HostInfo, ServerAddress};
use pillarbox_mongodb::{MongodbItemStore, MongodbStore, MongodbStoreBuilder};

use crate::connect::Options;
use crate::error::ConnectError;

pub(crate) async fn open(url: &str, options: &Options) -> Result<Arc<dyn Store>, ConnectError> {
    Ok(Arc::new(builder(url, options).await?.open().await?))
}

pub(crate) async fn open_items(url: &str, options: &Options) -> Result<Arc<dyn ItemStore>, ConnectError> {
    Ok(Arc::new(builder(url, options).await?.open_items().await?))
}

pub(crate) fn schema_sql(_: &str, options: &Options) -> Result<String, ConnectError> {
    refuse_schema(options)?;
    Ok(MongodbStore::schema_sql(&options.table()))
}

pub(crate) fn items_schema_sql(_: &str, options: &Options) -> Result<String, ConnectError> {
    refuse_schema(options)?;
    Ok(MongodbItemStore::schema_sql(&options.table()))
}

async fn builder(url: &str, options: &Options) -> Result<MongodbStoreBuilder, ConnectError> {
    refuse_schema(options)?;
    Ok(MongodbStore::builder_from_url(url).await?.table(options.table()))
}

fn refuse_schema(options: &Options) -> Result<(), ConnectError> {
    match options.schema {
        Some(_) => Err(ConnectError::NoSuchOption { store: "mongodb", option: "schema" }),
        None => Ok(()),
    }
}

pub(crate) fn tls_advice(url: &str) -> Option<&'static str> {
    let options = ConnectionString::parse(url).ok()?;
    let is_local = match &options.host_info {
        HostInfo::HostIdentifiers(hosts) => hosts.iter().all(|host| match host {
            ServerAddress::Tcp { host, .. } => is_loopback(host),
            _ => true,
        }),
        // A record of DNS turns TLS on.
        _ => return None,
    };
    (options.tls.is_none() && !is_local).then_some(
        "add tls=true to the URL, and tlsCAFile=FILE for certificates of your own authority; tls=false says that you trust the network",
    )
}
