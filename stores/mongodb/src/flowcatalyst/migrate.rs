//! The collections: that of items as it is or is made, and ours beside it.

use mongodb::IndexModel;
use mongodb::bson::doc;
use pillarbox::model::TableName;
use pillarbox::port::{ErrorKind, Migrated};

use crate::call::{Call, Find};
use crate::error::Failure;
use crate::migrate::{create, make_beside, refuse_newer, script_beside, version};
use crate::outbox::Names;

/// How many slots there are: the one is leadership.
const SLOTS: i16 = 1;

/// A script for `mongosh` that does what `migrate` does.
pub(crate) fn script(table: &TableName) -> String {
    let names = Names::new(table);
    format!(
        "// A document of {0}: _id, type, messageGroup, payload, status, retryCount, createdAt, processedAt, errorMessage.\n\
         db.createCollection(\"{0}\");\n\
         db.{0}.createIndex({{ status: 1, messageGroup: 1, createdAt: 1 }});\n{1}",
        names.event,
        script_beside(&names, SLOTS)
    )
}

/// Makes what is missing. A collection of items that is there stays as it is. Every step may be made again.
pub(crate) async fn migrate(call: &mut Call<'_>) -> Result<Migrated, Failure> {
    let from = version(call).await?;
    refuse_newer(from)?;
    let outbox = call.outbox();
    if !is_there(call).await? {
        create(outbox, &outbox.names.event).await?;
        let keys = doc! { "status": 1, "messageGroup": 1, "createdAt": 1 };
        let items = outbox.documents(&outbox.names.event);
        items.create_index(IndexModel::builder().keys(keys).build()).await?;
    }
    make_beside(call, SLOTS).await?;
    let to = version(call).await?;
    Ok(Migrated { from, to })
}

/// Checks the collection of items. Ours may be missing: only nodes, groups and operators need them.
pub(crate) async fn check(call: &mut Call<'_>) -> Result<(), Failure> {
    refuse_newer(version(call).await?)?;
    if is_there(call).await? {
        return Ok(());
    }
    let detail = "the collections are missing; run `pillarbox migrate --layout flowcatalyst`".to_owned();
    Err(Failure::Refused(ErrorKind::Schema, detail))
}

/// Whether our collections are there.
pub(super) async fn has_beside(call: &mut Call<'_>) -> Result<bool, Failure> {
    Ok(version(call).await? > 0)
}

/// Documents have no columns to be missing: the collection is there if it is listed.
async fn is_there(call: &mut Call<'_>) -> Result<bool, Failure> {
    let names = call.outbox().database.list_collection_names().await?;
    if names.contains(&call.names().event) {
        return Ok(true);
    }
    Ok(call.first(&call.names().event, Find::default()).await?.is_some())
}
