//! Creating and checking the collections and their indexes.

use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::IndexOptions;
use pillarbox::model::{Lane, TableName};
use pillarbox::port::{ErrorKind, Migrated};

use crate::call::{Call, Find};
use crate::error::DriverError;
use crate::groups::EPOCH;
use crate::kind::Kind;
use crate::members;
use crate::membership::MEMBERS;
use crate::number::COUNTER;
use crate::operate::AUDIT;
use crate::outbox::{Names, Outbox, Server};
use crate::row::Fields;

const VERSION: i64 = 1;
const SCHEMA_VERSION: &str = "schema_version";
/// The server's error code for an existing collection.
const NAMESPACE_EXISTS: i32 = 48;

/// The fields of a row, for readers of the script.
const FIELDS: &str = "\
// A row of {event}; a plain writer sets _id (the event_id), event_type, payload and, optionally, aggregate_type,
// aggregate_id, tenant_id, headers, created_at, available_at, done_at, status, attempts, last_error, locked_by,
// locked_at, processed_by. Times are microseconds since 1970 (NumberLong) or dates.
// Fields of the store: seq, slot, home, group_key, message_group, message_id, correlation_id, occurred_at, due_at, expires_at,
// payload_bytes, locked_until, lock_token, mark, failures, malformed, joined.
";

/// An index: its name, its keys, and the rows it covers.
struct Index {
    name: &'static str,
    keys: &'static [&'static str],
    of: Of,
}

/// The rows that an index covers.
enum Of {
    All,
    /// Rows whose field is text; unique among them.
    UniqueText(&'static str),
    /// Rows of the queue.
    Queue,
}

impl Of {
    fn condition(&self) -> Option<Document> {
        match self {
            Self::All => None,
            Self::UniqueText(field) => Some(doc! { *field: { "$type": "string" } }),
            Self::Queue => Some(doc! { "slot": i32::from(Lane::QUEUE.0) }),
        }
    }
}

const INDEXES: [Index; 7] = [
    // Documents without a number come first, in insertion order; `adopt` relies on that.
    Index { name: "event_number", keys: &["seq"], of: Of::All },
    Index { name: "event_pending", keys: &["status", "seq", "slot"], of: Of::All },
    Index { name: "event_waiting", keys: &["status", "slot", "available_at", "seq"], of: Of::All },
    Index {
        name: "event_topic",
        keys: &["status", "slot", "event_type", "available_at", "seq"],
        of: Of::Queue,
    },
    Index { name: "event_ended", keys: &["status", "done_at"], of: Of::All },
    Index { name: "event_written", keys: &["created_at"], of: Of::All },
    Index { name: "event_message", keys: &["message_id"], of: Of::UniqueText("message_id") },
];

/// Indexes of joins and of their members.
const JOIN_INDEXES: [Index; 3] = [
    Index { name: "join_made", keys: &["created_at", "_id"], of: Of::All },
    Index { name: "join_member_of", keys: &["join", "message"], of: Of::All },
    Index { name: "join_member_step", keys: &["message", "state"], of: Of::All },
];

impl Index {
    fn keys(&self) -> Document {
        self.keys.iter().map(|key| ((*key).to_owned(), Bson::Int32(1))).collect()
    }

    fn model(&self) -> IndexModel {
        let mut options = IndexOptions::default();
        options.name = Some(self.name.to_owned());
        options.unique = matches!(self.of, Of::UniqueText(_)).then_some(true);
        options.partial_filter_expression = self.of.condition();
        IndexModel::builder().keys(self.keys()).options(options).build()
    }

    fn script(&self, collection: &str) -> String {
        let unique = if matches!(self.of, Of::UniqueText(_)) { ", unique: true" } else { "" };
        let only = self.of.condition().map(|only| format!(", partialFilterExpression: {only}"));
        let options = format!("{{ name: \"{}\"{unique}{} }}", self.name, only.unwrap_or_default());
        format!("db.{collection}.createIndex({}, {options});\n", self.keys())
    }
}

/// The documents that a new outbox needs.
fn first_documents(slots: i16) -> Vec<(&'static str, Document)> {
    let counter = || doc! { "value": 0_i64 };
    let mut members = members::to_document(&members::none(slots));
    members.insert("version", 0_i64);
    vec![
        (COUNTER, doc! { "value": 0_i64, "open": [] }),
        (EPOCH, counter()),
        (AUDIT, counter()),
        (MEMBERS, members),
        // Last: its existence proves that all others exist.
        (SCHEMA_VERSION, doc! { "value": VERSION }),
    ]
}

/// A `mongosh` script that does the same as `migrate`.
pub(crate) fn script<K: Kind>(table: &TableName) -> String {
    let names = Names::new(table);
    let mut script = K::script(&names);
    for collection in [&names.group, &names.audit, &names.node] {
        script += &format!("db.createCollection(\"{collection}\");\n");
    }
    for (id, fields) in first_documents(K::LAYOUT.slots()) {
        script += &format!(
            "db.{}.updateOne({{ _id: \"{id}\" }}, {{ $setOnInsert: {fields} }}, {{ upsert: true }});\n",
            names.meta
        );
    }
    script
}

/// The part of the script that creates the native collections.
pub(crate) fn script_events(names: &Names) -> String {
    let mut script = FIELDS.replace("{event}", &names.event);
    for index in &INDEXES {
        script += &index.script(&names.event);
    }
    for (index, collection) in JOIN_INDEXES.iter().zip([&names.join, &names.member, &names.member]) {
        script += &index.script(collection);
    }
    script
}

/// Creates whatever is missing. Every step is idempotent, so two processes may migrate at once.
pub(crate) async fn migrate<K: Kind>(call: &mut Call<'_>) -> Result<Migrated, DriverError> {
    let from = version(call).await?;
    refuse_newer(from)?;
    K::make(call).await?;
    let outbox = call.outbox();
    for collection in [&outbox.names.group, &outbox.names.audit, &outbox.names.node] {
        create(outbox, collection).await?;
    }
    for (id, fields) in first_documents(K::LAYOUT.slots()) {
        let statement = doc! { "q": { "_id": id }, "u": { "$setOnInsert": fields }, "upsert": true };
        call.update(&outbox.names.meta, vec![statement]).await?;
    }
    let to = version(call).await?;
    Ok(Migrated { from, to })
}

/// Creates the indexes of the native collections, which creates the collections too.
pub(crate) async fn make_events(call: &mut Call<'_>) -> Result<(), DriverError> {
    let events = call.outbox().documents(&call.names().event);
    events.create_indexes(INDEXES.iter().map(Index::model)).await?;
    // Joins exist only where the server has transactions.
    if call.outbox().server == Server::Replicated {
        let [made, member_of, step] = JOIN_INDEXES.each_ref().map(Index::model);
        call.outbox().documents(&call.names().join).create_index(made).await?;
        call.outbox().documents(&call.names().member).create_indexes([member_of, step]).await?;
    }
    Ok(())
}

/// Creates a collection, if it does not exist. On older servers a transaction cannot create it.
pub(crate) async fn create(outbox: &Outbox, name: &str) -> Result<(), DriverError> {
    match outbox.database.create_collection(name).await.map_err(DriverError::from) {
        Err(failure) if failure.code() == Some(NAMESPACE_EXISTS) => Ok(()),
        created => created,
    }
}

pub(crate) async fn check(call: &mut Call<'_>) -> Result<(), DriverError> {
    let found = version(call).await?;
    refuse_newer(found)?;
    if i64::from(found) != VERSION {
        return Err(DriverError::missing());
    }
    let names = call.outbox().documents(&call.names().event).list_index_names().await?;
    match INDEXES.iter().find(|index| !names.iter().any(|name| name == index.name)) {
        None => Ok(()),
        Some(index) => {
            let detail = format!("the index {} is missing; run `pillarbox migrate`", index.name);
            Err(DriverError::Refused(ErrorKind::Schema, detail))
        }
    }
}

pub(crate) fn refuse_newer(found: u32) -> Result<(), DriverError> {
    if i64::from(found) <= VERSION {
        return Ok(());
    }
    let detail = format!(
        "the collections are of version {found}, this knows versions up to {VERSION}; use a newer release"
    );
    Err(DriverError::Refused(ErrorKind::Schema, detail))
}

/// The schema version of the collections; zero if they do not exist.
pub(crate) async fn version(call: &mut Call<'_>) -> Result<u32, DriverError> {
    let find = Find { filter: doc! { "_id": SCHEMA_VERSION }, ..Find::default() };
    let found = call.first(&call.names().meta, find).await?;
    let version = found.and_then(|document| Fields::new(&document).number("value"));
    Ok(version.and_then(|version| u32::try_from(version).ok()).unwrap_or(0))
}
