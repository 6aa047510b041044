//! The PostgreSQL store of Pillarbox: one node or many, delivered by leases instead of row claims.
//!
//! An event goes in on a transaction that the outbox begins on the application's pool, or on one that the application
//! already has. Reading, settling and renewing have connections of their own, so that a busy pool takes no lease away.
//!
//! ```no_run
//! use pillarbox::{Event, Outbox};
//! use pillarbox_postgres::PostgresStore;
//! use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPoolOptions::new().connect("postgres://shop@localhost/shop").await?;
//! let outbox = Outbox::single_node(PostgresStore::new(pool))
//!     .listener("OrderPlaced", |event: Event| async move { Ok::<_, std::fmt::Error>(drop(event)) })
//!     .start()
//!     .await?;
//! let mut tx = outbox.begin().await?;
//! pillarbox_postgres::sqlx::query("INSERT INTO orders (id) VALUES (1)").execute(&mut **tx).await?;
//! tx.write(Event::text("OrderPlaced", r#"{"order":1}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! On a transaction of sqlx that is already there:
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
//! A pool, a connection or a client is no transaction: this compiles with `on: &mut sqlx::PgTransaction<'_>`,
//!
//! ```no_run
//! # use pillarbox::{Event, Outbox};
//! # use pillarbox_postgres::{PostgresStore, sqlx, tokio_postgres};
//! # async fn run(outbox: Outbox<PostgresStore>, on: &mut sqlx::PgTransaction<'_>) {
//! let written = outbox.write_on(on, [Event::text("OrderPlaced", "{}")]).await;
//! # }
//! ```
//!
//! and does not with `&mut sqlx::PgPool`, `&mut sqlx::PgConnection` or `&mut tokio_postgres::Client`:
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
//! The feature `tokio-postgres-0_7` adds `PipelinedStore`, whose transactions are begun with tokio-postgres, and writing on
//! transactions of tokio-postgres and deadpool-postgres. For any other driver there is the statement itself, see the
//! store's [`WriteSql`](PostgresTable#impl-WriteSql-for-PostgresTable%3CK%3E).

mod admin;
mod announce;
mod claim;
mod config;
mod connection;
mod error;
mod fetch;
mod flowcatalyst;
mod groups;
mod hints;
mod insert;
mod inspect;
mod joins;
mod kind;
mod membership;
mod migrate;
mod operate;
#[cfg(feature = "tokio-postgres-0_7")]
mod pipelined;
mod pooler;
mod promote;
mod rights;
mod row;
mod settle;
mod sql;
mod store;
mod time;
#[cfg(feature = "sqlx-0_9")]
mod transaction;
mod write_sql;

pub use config::{PostgresStoreBuilder, WakeUp};
#[cfg(feature = "tokio-postgres-0_7")]
pub use deadpool_postgres;
#[cfg(feature = "tokio-postgres-0_7")]
pub use pipelined::{PipelinedItemStore, PipelinedStore, PipelinedTable, PipelinedTransaction};
pub use pooler::Pooler;
pub use sqlx;
pub use store::{PostgresItemStore, PostgresStore, PostgresTable};
#[cfg(feature = "tokio-postgres-0_7")]
pub use tokio_postgres;
