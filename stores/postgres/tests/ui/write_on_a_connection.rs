//! A bare connection takes no rows.

use pillarbox::model::NewRow;
use pillarbox::port::WriteOn;
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::PgConnection;

fn write(store: &PostgresStore, connection: &mut PgConnection, rows: &[NewRow]) {
    let _ = store.insert(connection, rows);
}

fn main() {}
