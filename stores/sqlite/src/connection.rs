//! The store's own connections: how they are opened, and how they wait for locks.

use std::cell::Cell;
#[cfg(unix)]
use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pillarbox::port::ErrorKind;
use rusqlite::{Connection, OpenFlags};

use crate::config::{Access, Missing, Synchronous};
use crate::error::DriverError;

/// Enough for all statements of the store and some of the user's.
const CACHED_STATEMENTS: usize = 96;
/// Page cache of the writer, in KiB.
const WRITER_CACHE_KIB: i64 = 16 * 1024;
/// Page cache of a reader, in KiB. It is small because there are several readers, and rows of megabytes fill
/// it with pages that are read only once.
const READER_CACHE_KIB: i64 = 4 * 1024;
/// A WAL file that has grown beyond this size in a burst is truncated to it when it is reset.
const LOG_BYTES: i64 = 64 * 1024 * 1024;
const FIRST_STEPS: i32 = 8;
const SHORT_STEP: Duration = Duration::from_micros(250);
const STEP: Duration = Duration::from_millis(1);

thread_local! {
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static WAITING_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How to open a connection.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    pub(crate) access: Access,
    pub(crate) missing: Missing,
    pub(crate) busy_timeout: Duration,
}

impl Opening {
    /// Opens the writer's connection and switches the file to WAL mode.
    pub(crate) fn writer(&self, path: &Path, synchronous: Synchronous) -> Result<Connection, DriverError> {
        let connection = self.open(path, WRITER_CACHE_KIB)?;
        if self.access == Access::ReadWrite {
            use_log(&connection)?;
            connection.pragma_update(None, "synchronous", synchronous.as_str())?;
            connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
        }
        Ok(connection)
    }

    /// Opens a connection that can only read.
    pub(crate) fn reader(&self, path: &Path) -> Result<Connection, DriverError> {
        let connection = self.open(path, READER_CACHE_KIB)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    fn open(&self, path: &Path, cache_kib: i64) -> Result<Connection, DriverError> {
        let mode = match (self.access, self.missing) {
            (Access::ReadOnly, _) => OpenFlags::SQLITE_OPEN_READ_ONLY,
            (Access::ReadWrite, Missing::Refuse) => OpenFlags::SQLITE_OPEN_READ_WRITE,
            (Access::ReadWrite, Missing::Create) => {
                create(path);
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
            }
        };
        let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_handler(Some(wait_for_lock))?;
        be_patient(self.busy_timeout);
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        connection.pragma_update(None, "cache_size", -cache_kib)?;
        // In memory, the journal of a savepoint would contain every page that a settle of large rows changes.
        connection.pragma_update(None, "temp_store", "file")?;
        Ok(connection)
    }
}

/// Creates a missing file that only its owner can read, because it will contain payloads. SQLite gives the log
/// and the index beside it the same rights. It reports errors, so they are ignored here.
#[cfg(unix)]
fn create(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    drop(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path));
}

#[cfg(not(unix))]
fn create(_: &Path) {}

/// Sets how long connections used on this thread wait for a lock.
pub(crate) fn be_patient(busy_timeout: Duration) {
    PATIENCE.set(busy_timeout);
}

fn use_log(connection: &Connection) -> Result<(), DriverError> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode.eq_ignore_ascii_case("wal") {
        return Ok(());
    }
    let detail = format!("cannot switch the file to WAL mode; it stays in mode {mode}");
    Err(DriverError::Refused(ErrorKind::Unsupported, detail))
}

/// Waits for a lock in steps of at most 1 ms. SQLite's own steps grow to 100 ms; with short ones a writer
/// gets in between two others.
fn wait_for_lock(tried: i32) -> bool {
    let now = Instant::now();
    if tried == 0 {
        WAITING_SINCE.set(Some(now));
    }
    let waited = WAITING_SINCE.get().map_or(Duration::MAX, |since| now.duration_since(since));
    let left = PATIENCE.get().saturating_sub(waited);
    if left.is_zero() {
        return false;
    }
    thread::sleep(if tried < FIRST_STEPS { SHORT_STEP } else { STEP }.min(left));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-013
    #[test]
    fn what_a_savepoint_may_undo_is_kept_in_a_file() {
        let opening = Opening {
            access: Access::ReadWrite,
            missing: Missing::Create,
            busy_timeout: Duration::from_secs(1),
        };
        let folder = tempfile::tempdir().unwrap();
        let connection = opening.open(&folder.path().join("outbox.db"), READER_CACHE_KIB).unwrap();
        let kept: i64 = connection.pragma_query_value(None, "temp_store", |row| row.get(0)).unwrap();
        assert_eq!(kept, 1, "1 is a file, 2 is memory");
    }

    /// PBX-161
    #[cfg(unix)]
    #[test]
    fn new_files_are_their_owners_alone_and_others_keep_their_rights() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt as _;
        let opening = Opening {
            access: Access::ReadWrite,
            missing: Missing::Create,
            busy_timeout: Duration::from_secs(1),
        };
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared.db");
        fs::write(&shared, "").unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o640)).unwrap();
        for (name, mode) in [("new.db", 0o600), ("shared.db", 0o640)] {
            let connection = opening.writer(&folder.path().join(name), Synchronous::Full).unwrap();
            connection.execute_batch("CREATE TABLE t (a)").unwrap();
            for suffix in ["", "-wal", "-shm"] {
                let file = folder.path().join(format!("{name}{suffix}"));
                let found = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
                assert_eq!(found, mode, "{}", file.display());
            }
        }
    }
}
