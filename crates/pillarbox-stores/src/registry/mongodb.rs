//! MongoDB: from the options of the list to those of its store.

use std::sync::Arc;

use pillarbox::port::Store;
use pillarbox_mongodb::MongodbStore;

use crate::connect::Options;
use crate::error::ConnectError;

pub(crate) async fn connect(url: &str, options: &Options) -> Result<Arc<dyn Store>, ConnectError> {
    refuse_schema(options)?;
    let builder = MongodbStore::builder_from_url(url).await?.layout(options.layout());
    Ok(Arc::new(builder.table(options.table()).open().await?))
}

pub(crate) fn schema_sql(_: &str, options: &Options) -> Result<String, ConnectError> {
    refuse_schema(options)?;
    Ok(MongodbStore::schema_sql(&options.table(), options.layout()))
}

fn refuse_schema(options: &Options) -> Result<(), ConnectError> {
    match options.schema {
        Some(_) => Err(ConnectError::NoSuchOption { store: "mongodb", option: "schema" }),
        None => Ok(()),
    }
}
