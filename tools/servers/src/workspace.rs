//! The folders of instances, each protected by a lock while its holder lives.

use std::env;
use std::fs::{self, DirEntry, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{self as system, Command};
use std::time::Duration;

use super::runner::our_id;
use super::{instance, lock};
use crate::disk;
use crate::process;

const LOCK: &str = "lock";
const KEPT: &str = "up";
const RUN: &str = "run-";
/// How long to wait for the lock. Its holder may be fetching software.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// A folder of instances that is locked while this value lives.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) folder: PathBuf,
    /// The lock. The system releases it when this program ends, even by a crash.
    _lock: File,
}

impl Workspace {
    /// The folder of `servers up` and `servers down`, whose instances keep running between calls.
    pub(super) fn kept(root: &Path) -> Result<Self, String> {
        let base = open_base(root)?;
        Self::take(&base.join(KEPT))
    }

    /// A new folder for this run of the program.
    pub(super) fn of_this_run(root: &Path) -> Result<Self, String> {
        let base = open_base(root)?;
        let _gate = gate(&base)?;
        Self::take(&base.join(format!("{RUN}{}", system::id())))
    }

    /// Fails if the disk has too little free space.
    pub(super) fn check_space(&self) -> Result<(), String> {
        disk::check(&self.folder, disk::DATA)
    }

    /// The folder of the instance of this name.
    pub(super) fn place_of(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Stops all instances and removes the folder.
    pub(super) fn clear(&self) -> Result<(), String> {
        entries(&self.folder)
            .iter()
            .filter(|entry| entry.is_dir())
            .try_for_each(|entry| instance::clear(entry))?;
        instance::remove(&self.folder)
    }

    fn take(folder: &Path) -> Result<Self, String> {
        make_open_folder(folder)?;
        let lock = lock::exclusive(&folder.join(LOCK), PATIENCE, "starts or ends servers")?;
        Ok(Self { _lock: lock, folder: folder.to_owned() })
    }
}

/// Clears the folder of a run that has ended, if the run left it behind.
pub(super) fn clear_after(run: &Path) -> Result<(), String> {
    if !run.exists() {
        return Ok(());
    }
    // The system may need a moment to release the lock of a killed process.
    Workspace { _lock: lock::exclusive(&run.join(LOCK), PATIENCE, "ends")?, folder: run.to_owned() }.clear()
}

/// Creates the folder of this workspace if necessary, and removes the leftovers of interrupted runs.
fn open_base(root: &Path) -> Result<PathBuf, String> {
    let base = base(root, &env::temp_dir(), &our_id()?);
    make_open_folder(&base)?;
    let _gate = gate(&base)?;
    let is_run =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(RUN));
    entries(&base).iter().filter(is_run).try_for_each(|run| sweep(run))?;
    Ok(base)
}

fn gate(base: &Path) -> Result<File, String> {
    lock::exclusive(&base.join(LOCK), PATIENCE, "begins")
}

/// Clears the folder of a run unless the run still holds its lock.
fn sweep(run: &Path) -> Result<(), String> {
    let file = match File::create(run.join(LOCK)) {
        // The guard of that run has removed the folder in the meantime.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        created => created.map_err(|error| told(run, &error))?,
    };
    if file.try_lock().is_err() {
        return Ok(());
    }
    eprintln!("clearing what an interrupted run left in {}", run.display());
    Workspace { folder: run.to_owned(), _lock: file }.clear()
}

/// A folder per user and workspace. Its path is short, because the path of a socket must be.
fn base(root: &Path, temp: &Path, user: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    root.hash(&mut hasher);
    temp.join(format!("pillarbox-{user}-{:08x}", hasher.finish() >> 32))
}

/// Creates a folder that every user can enter. Fails if another user owns it, because it can't be trusted.
fn make_open_folder(folder: &Path) -> Result<(), String> {
    // Fails if the folder exists, also if another process has just created it. The owner is checked below.
    let made = process::answer(Command::new("mkdir").args(["-m", "755"]).arg(folder));
    let is_ours = || process::succeeds(Command::new("sh").args(["-c", "test -O \"$0\""]).arg(folder));
    match fs::symlink_metadata(folder) {
        Ok(about) if about.is_dir() && is_ours() => Ok(()),
        Ok(_) => Err(format!("{}: not a folder of ours", folder.display())),
        Err(error) => Err(made.err().unwrap_or_else(|| told(folder, &error))),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    found.filter_map(|entry| entry.ok().map(|entry: DirEntry| entry.path())).collect()
}

fn told(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_and_workspace_has_a_folder_of_its_own() {
        let temp = Path::new("tmp");
        let folders =
            [("a", "0"), ("b", "0"), ("a", "1000")].map(|(root, user)| base(Path::new(root), temp, user));
        assert_eq!(folders[0], base(Path::new("a"), temp, "0"));
        assert!(folders[0] != folders[1] && folders[0] != folders[2]);
        assert!(folders.iter().all(|folder| folder.starts_with(temp)));
    }

    #[cfg(unix)]
    #[test]
    fn only_what_nobody_holds_is_swept() {
        let run = env::temp_dir().join(format!("pillarbox-sweep-{}", system::id()));
        let held = Workspace::take(&run).unwrap();
        sweep(&run).unwrap();
        assert!(run.exists());
        drop(held);
        sweep(&run).unwrap();
        assert!(!run.exists());
    }
}
