//! File permissions: whether this process may write the file and the WAL file beside it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use pillarbox::port::{ErrorKind, Lacking};
use rusqlite::{Connection, ErrorCode, MAIN_DB};

use crate::error::DriverError;

/// Lists the missing permissions.
///
/// SQLite opens a file without write permission read-only, and the connection shows that. The file is not
/// opened here to find out: closing it again would release the locks that SQLite holds on it in this process.
pub(crate) fn lacking(connection: &Connection, path: &Path) -> Result<Lacking, DriverError> {
    let mut lacking = Lacking::default();
    if connection.is_readonly(MAIN_DB)? {
        lacking.deliver.push(format!("chmod u+w {}", path.display()));
    }
    // The WAL file may belong to another user. SQLite does not lock this file, so it can
    // be opened and closed here.
    if OpenOptions::new().append(true).open(log_of(path)).is_err_and(|error| is_denial(&error)) {
        lacking.deliver.push(format!("chmod u+w {}*", path.display()));
    }
    Ok(lacking)
}

/// Explains a failure to open an existing file if missing permissions are the cause.
pub(crate) fn explained(failure: DriverError, path: &Path) -> DriverError {
    let code = match &failure {
        DriverError::Sqlite(error) => error.sqlite_error_code(),
        DriverError::Refused(..) => None,
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match code {
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) if path.exists() && !is_writable(folder) => {
            let folder = folder.display();
            let detail = format!(
                "this user may not write the directory {folder}, where SQLite keeps its log beside the file; run as its owner: chmod u+w {folder}"
            );
            DriverError::Refused(ErrorKind::Permission, detail)
        }
        _ => failure,
    }
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Whether files can be created in a folder. It creates an empty file for a moment, so it is called only
/// after opening has failed.
fn is_writable(folder: &Path) -> bool {
    let probe = folder.join(format!(".pillarbox-{}", std::process::id()));
    match OpenOptions::new().write(true).create_new(true).open(&probe) {
        Ok(_) => fs::remove_file(&probe).is_ok(),
        Err(error) => !is_denial(&error),
    }
}

fn is_denial(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
