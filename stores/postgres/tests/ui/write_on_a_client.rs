//! A bare client of tokio-postgres takes no rows.

use pillarbox::model::NewRow;
use pillarbox::port::WriteOn;
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::tokio_postgres::Client;

fn write(store: &PostgresStore, client: &mut Client, rows: &[NewRow]) {
    let _ = store.insert(client, rows);
}

fn main() {}
