//! The PostgreSQL store of Pillarbox: one or many nodes, which deliver under leases instead of row claims.
//!
//! The outbox writes events in a transaction that it begins on the application's pool, or in a transaction
//! that the application already has. Reading, settling and heartbeats use the store's own connections, so a
//! busy pool cannot cost a node its lease.
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_postgres::PostgresStore;
//! use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPoolOptions::new().connect("postgres://shop@localhost/shop").await?;
//! let outbox = Outbox::single_node(PostgresStore::new(pool))
//!     .listener("OrderPlaced", |event: Event| async move { Ok(drop(event)) })
//!     .start()
//!     .await?;
//! let mut tx = outbox.begin().await?;
//! pillarbox_postgres::sqlx::query("INSERT INTO orders (id) VALUES (1)").execute(tx.conn()).await?;
//! tx.write(Event::text("OrderPlaced", r#"{"order":1}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! On a sqlx transaction that the application has begun:
//!
//! ```no_run
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx::postgres::PgPool};
//! # async fn run(pool: PgPool, outbox: Outbox<PostgresStore>) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = pool.begin().await?;
//! let receipt = outbox.write_on(&mut tx, [Event::text("OrderPlaced", "{}")]).await?;
//! tx.commit().await?;
//! receipt.committed();
//! # Ok(())
//! # }
//! ```
//!
//! A pool, a connection or a client is not a transaction. This compiles with
//! `on: &mut sqlx::PgTransaction<'_>`,
//!
//! ```no_run
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx, tokio_postgres};
//! # async fn run(outbox: Outbox<PostgresStore>, on: &mut sqlx::PgTransaction<'_>) {
//! let written = outbox.write_on(on, [Event::text("OrderPlaced", "{}")]).await;
//! # }
//! ```
//!
//! but not with `&mut sqlx::PgPool`, `&mut sqlx::PgConnection` or `&mut tokio_postgres::Client`:
//!
//! ```compile_fail
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx, tokio_postgres};
//! # async fn run(outbox: Outbox<PostgresStore>, on: &mut sqlx::PgPool) {
//! let written = outbox.write_on(on, [Event::text("OrderPlaced", "{}")]).await;
//! # }
//! ```
//!
//! ```compile_fail
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx, tokio_postgres};
//! # async fn run(outbox: Outbox<PostgresStore>, on: &mut sqlx::PgConnection) {
//! let written = outbox.write_on(on, [Event::text("OrderPlaced", "{}")]).await;
//! # }
//! ```
//!
//! ```compile_fail
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx, tokio_postgres};
//! # async fn run(outbox: Outbox<PostgresStore>, on: &mut tokio_postgres::Client) {
//! let written = outbox.write_on(on, [Event::text("OrderPlaced", "{}")]).await;
//! # }
//! ```
//!
//! The feature `tokio-postgres-0_7` adds `PipelinedStore`, which begins transactions with tokio-postgres. It
//! also lets stores write in transactions of tokio-postgres and deadpool-postgres. With any other driver, run
//! the insert statement yourself: see the store's
//! [`WriteSql`](PostgresTable#impl-WriteSql-for-PostgresTable%3CK%3E).

mod admin;
mod claim;
mod config;
mod connection;
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
mod notifier;
mod operate;
#[cfg(feature = "tokio-postgres-0_7")]
mod pipelined;
mod pooler;
mod promote;
mod rights;
mod row;
mod settle;
mod settle_claimed;
mod sql;
mod store;
mod time;
#[cfg(feature = "sqlx-0_9")]
mod transaction;
mod wakeups;
mod write_sql;

pub use config::{PostgresStoreBuilder, PostgresWakeUp};
#[cfg(feature = "tokio-postgres-0_7")]
pub use deadpool_postgres;
#[cfg(feature = "tokio-postgres-0_7")]
pub use pipelined::{PipelinedItemStore, PipelinedStore, PipelinedTable, PipelinedTransaction};
pub use pooler::Pooler;
pub use sqlx;
pub use store::{PostgresItemStore, PostgresStore, PostgresTable};
#[cfg(feature = "tokio-postgres-0_7")]
pub use tokio_postgres;
