//! Creating and checking the collection of items and the store's own collections beside it.

use mongodb::IndexModel;
use mongodb::bson::doc;
use pillarbox::port::ErrorKind;

use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::migrate::{create, refuse_newer, version};
use crate::outbox::Names;

/// The part of the `mongosh` script that creates the collection of items.
pub(super) fn script_items(names: &Names) -> String {
    format!(
        "// A document of {0}: _id, type, messageGroup, payload, status, retryCount, createdAt, processedAt, errorMessage.\n\
         db.createCollection(\"{0}\");\n\
         db.{0}.createIndex({{ status: 1, messageGroup: 1, createdAt: 1 }});\n",
        names.event
    )
}

/// Creates the collection of items. An existing collection is not changed.
pub(super) async fn make_items(call: &mut Call<'_>) -> Result<(), DriverError> {
    let outbox = call.outbox();
    if !is_there(call).await? {
        create(outbox, &outbox.names.event).await?;
        let keys = doc! { "status": 1, "messageGroup": 1, "createdAt": 1 };
        let items = outbox.documents(&outbox.names.event);
        items.create_index(IndexModel::builder().keys(keys).build()).await?;
    }
    Ok(())
}

/// Checks the collection of items. The store's own collections may be missing: only nodes, groups and
/// operators need them.
pub(super) async fn check(call: &mut Call<'_>) -> Result<(), DriverError> {
    refuse_newer(version(call).await?)?;
    if is_there(call).await? {
        return Ok(());
    }
    let detail = "the collections are missing; run `pillarbox migrate --layout flowcatalyst`".to_owned();
    Err(DriverError::Refused(ErrorKind::Schema, detail))
}

/// Whether the store's own collections exist.
pub(super) async fn has_beside(call: &mut Call<'_>) -> Result<bool, DriverError> {
    Ok(version(call).await? > 0)
}

/// Whether the collection of items exists. A collection has no columns to check, so being listed is enough.
async fn is_there(call: &mut Call<'_>) -> Result<bool, DriverError> {
    let names = call.outbox().database.list_collection_names().await?;
    if names.contains(&call.names().event) {
        return Ok(true);
    }
    // Not listed: a document that can be read proves that it exists.
    Ok(call.first(&call.names().event, Find::default()).await?.is_some())
}
