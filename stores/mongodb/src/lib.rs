//! The MongoDB store of Pillarbox: writes events in the same transaction as your documents.
//!
//! Transactions need a replica set; a replica set with one member is enough. The store checks the server when
//! it opens, and refuses to begin a transaction on any other server.
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_mongodb::MongodbStore;
//! use pillarbox_mongodb::mongodb::{Client, bson::doc, bson::Document};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Client::with_uri_str("mongodb://localhost/?replicaSet=rs0").await?.database("shop");
//! let outbox = Outbox::single_node(MongodbStore::new(database.clone()).await?)
//!     .listener("OrderPlaced", |event: Event| async move { Ok(drop(event)) })
//!     .start()
//!     .await?;
//! let mut tx = outbox.begin().await?;
//! database.collection::<Document>("orders").insert_one(doc! { "_id": 1 }).session(tx.conn()).await?;
//! tx.write(Event::text("OrderPlaced", r#"{"order":1}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! To write in a transaction of your own session:
//!
//! ```no_run
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_mongodb::{MongodbStore, mongodb::ClientSession};
//! # async fn run(mut session: ClientSession, outbox: Outbox<MongodbStore>) -> Result<(), Box<dyn std::error::Error>> {
//! session.start_transaction().await?;
//! let receipt = outbox.write_on(&mut session, [Event::text("OrderPlaced", "{}")]).await?;
//! session.commit_transaction().await?;
//! receipt.committed();
//! # Ok(())
//! # }
//! ```
//!
//! To deliver from a collection that belongs to another program, open it with
//! [`MongodbStoreBuilder::open_items`].

mod admin;
mod adopt;
mod allocator;
mod call;
mod claim;
mod config;
mod document;
mod done;
mod ending;
mod error;
mod fetch;
mod flowcatalyst;
mod groups;
mod insert;
mod inspect;
mod join_record;
mod joins;
mod kind;
mod locked;
mod members;
mod membership;
mod migrate;
mod number;
mod operate;
mod outbox;
mod promote;
mod rights;
mod row;
mod sessions;
mod settle;
mod steps;
mod store;
mod time;
mod transaction;
mod wakeups;

pub use config::{MongodbStoreBuilder, MongodbWakeUp};
pub use mongodb;
pub use store::{MongodbItemStore, MongodbStore, MongodbTable};
