//! Checks the free space for a build before a run starts, so that the disk does not fill up in the middle.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use pillarbox_servers::disk::{Space, check};

use crate::process;

const MEGABYTE: u64 = 1_024;
/// The space of a full build of all tests.
const BUILD: Space = Space { megabytes: 9_216, moved_by: "CARGO_TARGET_DIR" };

/// Fails if the disk would fill up during the build. The size of an earlier build is subtracted from the
/// need.
pub(crate) fn check_build(root: &Path) -> Result<(), String> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let built = used(&folder).unwrap_or_default();
    let space = Space { megabytes: BUILD.megabytes.saturating_sub(built), ..BUILD };
    check(if folder.exists() { &folder } else { root }, space)
}

/// The size of a folder, in megabytes.
fn used(folder: &Path) -> Option<u64> {
    let answer = process::answer(Command::new("du").arg("-sk").arg(folder).env("LC_ALL", "C")).ok()?;
    let kilobytes: u64 = answer.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / MEGABYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_holds_is_measured() {
        assert!(used(Path::new(env!("CARGO_MANIFEST_DIR"))).is_some_and(|used| used < 100));
        assert_eq!(used(Path::new("/no/such/folder")), None);
    }
}
