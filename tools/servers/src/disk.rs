//! Checks the free space before a run, so that the disk does not fill up in the middle.

use std::path::Path;
use std::process::Command;

use crate::process;

const MEGABYTE: u64 = 1_024;
/// The space for the data of all servers in a run, with a reserve.
pub(crate) const DATA: Space = Space { megabytes: 2_048, moved_by: "TMPDIR" };
/// The space for building the largest software, including everything it is built from.
pub(crate) const CACHE: Space = Space { megabytes: 3_072, moved_by: "XDG_CACHE_HOME" };
/// With fewer free megabytes, a failed program has most likely failed because of the full disk.
const NOTHING_LEFT: u64 = 16;

/// The space that something needs.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The needed space in megabytes.
    pub megabytes: u64,
    /// The environment variable that moves it to another disk.
    pub moved_by: &'static str,
}

/// Fails if the disk of a folder has too little free space. A disk that can't be measured passes.
pub fn check(folder: &Path, space: Space) -> Result<(), String> {
    judge(folder, free(folder), space)
}

/// Prefixes the reason of a failure with the full disk, if that is the likely cause.
pub(crate) fn explain(why: String, folder: &Path) -> String {
    let free = free(folder);
    if why.contains("No space left on device") || free.is_some_and(|free| free < NOTHING_LEFT) {
        let left = free.map_or_else(String::new, |free| format!(" ({free} MB free)"));
        return format!("the disk of {} is full{left}: {why}", folder.display());
    }
    why
}

fn judge(folder: &Path, free: Option<u64>, space: Space) -> Result<(), String> {
    let (needed, moved_by) = (space.megabytes, space.moved_by);
    match free {
        Some(free) if free < needed => Err(format!(
            "the disk of {} is too full: {free} MB are free and {needed} MB needed; make room or set {moved_by}",
            folder.display()
        )),
        _ => Ok(()),
    }
}

/// The free space on the folder's disk, in megabytes.
fn free(folder: &Path) -> Option<u64> {
    in_table(&process::answer(Command::new("df").arg("-Pk").arg(folder).env("LC_ALL", "C")).ok()?)
}

/// Reads the fourth column of the second line of `df`, in megabytes.
fn in_table(table: &str) -> Option<u64> {
    let kilobytes: u64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kilobytes / MEGABYTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_read_from_the_table() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 10240 4 10236 1% /t\n";
        assert_eq!(in_table(table), Some(9));
        assert_eq!(in_table("Filesystem\n"), None);
    }

    #[test]
    fn a_full_disk_is_told_with_the_folder_and_the_way_out() {
        let folder = Path::new("/t");
        let why = "the disk of /t is too full: 9 MB are free and 2048 MB needed; make room or set TMPDIR";
        assert_eq!(judge(folder, Some(9), DATA), Err(why.into()));
        assert_eq!(judge(folder, Some(4_096), DATA), Ok(()));
        assert_eq!(judge(folder, None, DATA), Ok(()));
    }

    #[test]
    fn a_program_that_met_the_end_of_the_disk_is_explained() {
        let folder = Path::new("/no/such/folder");
        let why = explain("write: No space left on device".into(), folder);
        assert_eq!(why, "the disk of /no/such/folder is full: write: No space left on device");
        assert_eq!(explain("exit status: 1".into(), folder), "exit status: 1");
    }
}
