//! A reader: one thread with one connection, where each read has its own snapshot.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pillarbox::port::{ErrorKind, StoreError, StoreFuture};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::connection::be_patient;
use crate::error::DriverError;
use crate::sql::Sql;

/// How many reads may queue; further callers wait.
const QUEUE: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The handle of a reader thread. When it is dropped, the thread ends after its last read.
pub(crate) struct Reader {
    reads: mpsc::Sender<Read>,
    sql: Arc<Sql>,
    store: Arc<str>,
}

impl Reader {
    pub(crate) fn start(
        name: &str,
        connection: Connection,
        sql: Arc<Sql>,
        store: Arc<str>,
        busy_timeout: Duration,
    ) -> io::Result<Self> {
        let (reads, mut queue) = mpsc::channel::<Read>(QUEUE);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            be_patient(busy_timeout);
            while let Some(read) = queue.blocking_recv() {
                read(&connection);
            }
        })?;
        Ok(Self { reads, sql, store })
    }

    /// Runs a read in one snapshot.
    pub(crate) fn read<'a, T, F>(&'a self, operation: &'static str, work: F) -> StoreFuture<'a, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Sql) -> Result<T, DriverError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let sql = Arc::clone(&self.sql);
        let read: Read = Box::new(move |connection| {
            let _ =
                reply.send(in_snapshot(connection, |connection| work(connection, &sql.fitting(connection))));
        });
        Box::pin(async move {
            let gone =
                || DriverError::Refused(ErrorKind::Unavailable, "the reader thread has ended".to_owned());
            let result = match self.reads.send(read).await {
                Ok(()) => answer.await.unwrap_or_else(|_| Err(gone())),
                Err(_) => Err(gone()),
            };
            result.map_err(|failure| -> StoreError { failure.into_store_error(operation, &self.store) })
        })
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, DriverError>,
) -> Result<T, DriverError> {
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(|_| {
        Err(DriverError::Refused(ErrorKind::Unexpected, "the store panicked".to_owned()))
    });
    if !connection.is_autocommit() {
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    result
}
