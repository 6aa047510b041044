//! Caches fetched software in the user's cache folder, only if it is complete and works.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self as system};
use std::time::Duration;

use super::{exports, lock};
use crate::disk;

/// How long to wait for another run that fetches or builds the same software.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// The cache folder.
pub(super) fn folder() -> Result<PathBuf, String> {
    cache(exports::variable).ok_or_else(|| "there is no home folder to keep it in: set XDG_CACHE_HOME".into())
}

/// The folder of the software, if it is in the cache.
pub(super) fn cached(name: &str) -> Option<PathBuf> {
    let folder = folder().ok()?.join(name);
    folder.is_dir().then_some(folder)
}

/// Splits a path into the cached folder and the rest, if the path is in the cache.
pub(super) fn split(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let cache = folder().ok()?;
    let mut parts = path.strip_prefix(&cache).ok()?.components();
    let name = parts.next()?;
    Some((cache.join(name), parts.as_path().to_owned()))
}

/// Makes a folder within a temporary one, and moves it to its name once it is complete.
pub(super) fn keep(
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    let cache = folder()?;
    keep_in(&cache, name, |part| {
        disk::check(&cache, disk::CACHE)?;
        make(part).map_err(|why| disk::explain(why, &cache))
    })
}

fn keep_in(
    cache: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    let told = |path: &Path, error| format!("{}: {error}", path.display());
    fs::create_dir_all(cache).map_err(|error| told(cache, error))?;
    let _lock = lock::exclusive(&cache.join(format!("{name}.lock")), PATIENCE, &format!("fetches {name}"))?;
    let folder = cache.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    sweep(cache, name);
    let part = cache.join(format!("{name}.part-{}", system::id()));
    fs::create_dir(&part).map_err(|error| told(&part, error))?;
    let kept = make(&part).and_then(|made| put(&made, &folder));
    // Ignored: leftovers are harmless, because every fetch uses a new folder.
    let _ = fs::remove_dir_all(&part);
    kept.map(|()| folder)
}

/// Removes the leftovers of interrupted fetches. The caller holds the lock, so no fetch is in progress.
fn sweep(cache: &Path, name: &str) {
    let start = format!("{name}.part-");
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)) {
        // A folder that can't be removed only takes up space.
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Renames the complete folder atomically, so that nobody sees a part of it.
fn put(software: &Path, folder: &Path) -> Result<(), String> {
    match fs::rename(software, folder) {
        Err(error) if !folder.is_dir() => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

fn cache(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let own = lookup("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || lookup("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(own.or_else(home)?.join("pillarbox").join("servers"))
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn temp(name: &str) -> PathBuf {
        env::temp_dir().join(format!("pillarbox-{name}-{}", system::id()))
    }

    #[test]
    fn the_cache_is_where_the_user_wants_it() {
        let home = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        assert_eq!(cache(home).unwrap(), Path::new("/home/ada/.cache/pillarbox/servers"));
        let own = |name: &str| (name == "XDG_CACHE_HOME").then(|| "/var/cache/ada".to_owned());
        assert_eq!(cache(own).unwrap(), Path::new("/var/cache/ada/pillarbox/servers"));
        assert_eq!(cache(|_| None), None);
    }

    #[test]
    fn a_folder_that_was_put_there_meanwhile_is_as_good() {
        let temp = temp("put");
        let (mine, theirs) = (temp.join("mine"), temp.join("theirs"));
        fs::create_dir_all(&mine).unwrap();
        fs::create_dir_all(theirs.join("bin")).unwrap();
        put(&mine, &theirs).unwrap();
        assert!(theirs.join("bin").is_dir());
        assert!(put(&temp.join("nothing"), &temp.join("nowhere")).is_err());
        fs::remove_dir_all(&temp).unwrap();
    }

    #[test]
    fn what_could_not_be_made_is_not_kept_and_what_was_is_made_once() {
        let temp = temp("keep");
        fs::create_dir_all(temp.join("db.part-of-the-past")).unwrap();
        let broken = keep_in(&temp, "db", |part| {
            fs::create_dir(part.join("half")).unwrap();
            Err("no network".into())
        });
        assert_eq!(broken, Err("no network".to_owned()));
        let left: Vec<_> = fs::read_dir(&temp).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["db.lock"]);
        let whole = |part: &Path| {
            let made = part.join("whole");
            fs::create_dir(&made).map(|()| made).map_err(|error| error.to_string())
        };
        assert_eq!(keep_in(&temp, "db", whole), Ok(temp.join("db")));
        assert_eq!(keep_in(&temp, "db", |_| Err("made twice".into())), Ok(temp.join("db")));
        fs::remove_dir_all(&temp).unwrap();
    }
}
