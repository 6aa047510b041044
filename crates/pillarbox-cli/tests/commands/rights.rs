//! Files that a relay may not write: it is told before the first delivery.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::outbox::{Ran, pillarbox, run};

/// Someone who owns none of the files.
const NOBODY: u32 = 65_534;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs a relay on a file as a user whom its mode binds: nothing binds root.
fn relay(file: &Path) -> Ran {
    let mut command = pillarbox();
    let url = format!("sqlite:{}", file.display());
    command.args(["relay", "--sink", "stdout:", "--until-empty", "--database-url", &url]);
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    Ran::of(&mut command)
}

fn migrated(folder: &TempDir) -> PathBuf {
    let file = folder.path().join("outbox.db");
    run(&["migrate", "--url", &format!("sqlite:{}", file.display())]).done();
    // Who closes the file last takes the log away.
    let connection = pillarbox_sqlite::rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("PRAGMA user_version = 1").unwrap();
    connection.close().unwrap();
    mode(folder.path(), 0o777);
    file
}

/// PBX-104
#[test]
fn a_file_that_cannot_be_written_is_told_with_the_command_that_helps() {
    let folder = TempDir::new().unwrap();
    let file = migrated(&folder);
    mode(&file, 0o444);
    relay(&file).exits(1).complains(&format!("chmod u+w {};", file.display()));
}

/// PBX-104: SQLite keeps its log beside the file.
#[test]
fn a_directory_that_cannot_be_written_is_told_with_the_command_that_helps() {
    let folder = TempDir::new().unwrap();
    let file = migrated(&folder);
    mode(&file, 0o666);
    mode(folder.path(), 0o555);
    relay(&file).exits(1).complains(&format!("run as its owner: chmod u+w {}\n", folder.path().display()));
    mode(folder.path(), 0o777);
    relay(&file).exits(0);
}
