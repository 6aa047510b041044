//! Reads files that contain secrets: at most 64 KiB, and with a look at who else may read them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Maximum size of a file that contains a secret, in bytes.
const SECRET_BYTES: u64 = 64 * 1_024;

/// Reads a file that contains a secret, without surrounding whitespace. A file of more than 64 KiB is an error.
pub fn read_secret_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than allowed tells that there is more, whatever the file says of its length.
    File::open(path)?.take(SECRET_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > SECRET_BYTES {
        return Err(io::Error::other("it has more than 64 KiB"));
    }
    Ok(text.trim().to_owned())
}

/// A warning if every user of the machine may read the file. Groups are left alone: a secret that a group may
/// read is usually one that was given to it.
pub(super) fn exposure(path: &Path) -> Option<String> {
    let mode = mode(&fs::metadata(path).ok()?)?;
    let is_open = mode & 0o004 != 0;
    is_open.then(|| {
        format!(
            "every user of this machine can read the file (mode {:04o}): run `chmod o-r` on it",
            mode & 0o7777
        )
    })
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> Option<u32> {
    Some(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()))
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> Option<u32> {
    None
}
