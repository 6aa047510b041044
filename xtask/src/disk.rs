//! Free space for a build, looked at before it could meet a full disk in the middle of a run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use pillarbox_servers::disk::{Space, check};

use crate::process;

const MEGABYTE: u64 = 1_024;
/// Everything that is built for the tests, from nothing.
const BUILD: Space = Space { megabytes: 9_216, moved_by: "CARGO_TARGET_DIR" };

/// Refuses to build where the disk would be full before the end; what was built before counts.
pub(crate) fn check_build(root: &Path) -> Result<(), String> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let built = used(&folder).unwrap_or_default();
    let space = Space { megabytes: BUILD.megabytes.saturating_sub(built), ..BUILD };
    check(if folder.exists() { &folder } else { root }, space)
}

/// What a folder holds, in megabytes.
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
