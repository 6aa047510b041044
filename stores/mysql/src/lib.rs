//! The MySQL and MariaDB store of Pillarbox: delivery needs leases of nodes, not claims on rows.
//!
//! Events are written in a transaction that the outbox begins on the application's pool, or in one that the
//! application has already begun. Reads, settles and heartbeats use connections of their own, so a busy pool
//! cannot cost a node its lease.
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_mysql::MysqlStore;
//! use pillarbox_mysql::sqlx::mysql::MySqlPoolOptions;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = MySqlPoolOptions::new().connect("mysql://shop@localhost/shop").await?;
//! let outbox = Outbox::single_node(MysqlStore::new(pool))
//!     .listener("OrderPlaced", |event: Event| async move { Ok(drop(event)) })
//!     .start()
//!     .await?;
//! let mut tx = outbox.begin().await?;
//! pillarbox_mysql::sqlx::query("INSERT INTO orders (id) VALUES (1)").execute(tx.conn()).await?;
//! tx.write(Event::text("OrderPlaced", r#"{"order":1}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! To write in an existing sqlx transaction:
//!
//! ```no_run
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_mysql::{MysqlStore, sqlx::mysql::MySqlPool};
//! # async fn run(pool: MySqlPool, outbox: Outbox<MysqlStore>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = pool.begin().await?;
//! let receipt = outbox.write_on(&mut tx, [Event::text("OrderPlaced", "{}")]).await?;
//! tx.commit().await?;
//! receipt.committed();
//! # Ok(())
//! # }
//! ```
//!
//! For any other driver, the store returns the insert statement and its parameters: see
//! [`WriteSql`](MysqlTable#impl-WriteSql-for-MysqlTable%3CK%3E).

mod admin;
mod attach;
mod claim;
mod config;
mod connection;
mod cursor;
mod dialect;
mod done;
mod error;
mod fetch;
mod flowcatalyst;
mod groups;
mod insert;
mod inspect;
mod joins;
mod kind;
mod membership;
mod migrate;
mod operate;
mod pipeline;
mod probe;
mod promote;
mod renumber;
mod rights;
mod row;
mod settle;
mod sql;
mod store;
mod time;
#[cfg(feature = "sqlx-0_9")]
mod transaction;
mod write_sql;

pub use config::{Claiming, MysqlStoreBuilder};
pub use sqlx;
pub use store::{MysqlItemStore, MysqlStore, MysqlTable};
