//! The stores that are tried: one line each.

use std::sync::Arc;

use pillarbox_conformance::Harness;

mod memory;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mongodb")]
mod mongodb_items;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "mysql")]
mod mysql_items;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_items;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
mod sqlite_items;

/// Every store there is to try, the reference first.
pub(crate) fn all() -> Vec<Arc<dyn Harness>> {
    vec![
        Arc::new(memory::Memory),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb::Mongodb::main()),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb::Mongodb::three()),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb::Mongodb::ferretdb()),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb_items::MongodbItems::main()),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb_items::MongodbItems::ferretdb()),
        #[cfg(feature = "postgres")]
        Arc::new(postgres::Postgres::main()),
        #[cfg(feature = "postgres")]
        Arc::new(postgres::Postgres::newest()),
        #[cfg(feature = "mysql")]
        Arc::new(mysql::Mysql::mariadb()),
        #[cfg(feature = "mysql")]
        Arc::new(mysql::Mysql::main()),
        #[cfg(feature = "mysql")]
        Arc::new(mysql_items::MysqlItems::mariadb()),
        #[cfg(feature = "mysql")]
        Arc::new(mysql_items::MysqlItems::main()),
        #[cfg(feature = "postgres")]
        Arc::new(postgres_items::PostgresItems),
        #[cfg(feature = "sqlite")]
        Arc::new(sqlite::Sqlite),
        #[cfg(feature = "sqlite")]
        Arc::new(sqlite_items::SqliteItems),
    ]
}
