//! A bare connection takes no rows.

use pillarbox::model::NewRow;
use pillarbox::port::BlockingWriteOn;
use pillarbox_sqlite::SqliteStore;
use pillarbox_sqlite::rusqlite::Connection;

fn write(store: &SqliteStore, connection: &Connection, rows: &[NewRow]) {
    let _ = store.insert_blocking(connection, rows);
}

fn main() {}
