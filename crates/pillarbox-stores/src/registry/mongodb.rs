//! Opens MongoDB stores with the options of the registry.

use std::sync::Arc;

use pillarbox::port::{ItemStore, Store};
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
