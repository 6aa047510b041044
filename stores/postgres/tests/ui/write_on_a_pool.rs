//! A pool takes no rows.

use pillarbox::model::NewRow;
use pillarbox::port::WriteOn;
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::PgPool;

fn write(store: &PostgresStore, pool: &mut PgPool, rows: &[NewRow]) {
    let _ = store.insert(pool, rows);
}

fn main() {}
