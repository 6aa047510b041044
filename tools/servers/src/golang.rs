//! Builds software that is published as a Go module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::debian::{self, Suite, Unpacked};
use super::fetch;
use crate::process;

const BUILT: Duration = Duration::from_secs(15 * 60);
/// The program on the PATH, or where Go's archive installs it.
const PLACES: [&str; 2] = ["go", "/usr/local/go/bin/go"];
/// The first release that downloads the toolchain that a module requires.
const OLDEST: (u32, u32) = (1, 21);

static UNPACKED: Unpacked =
    Unpacked { suite: Suite::Unstable, package: "golang-go", parts: &["golang-"], programs: &[] };

/// A Go that can build any module.
#[derive(Debug)]
pub(super) struct Go {
    program: PathBuf,
    /// GOROOT of an unpacked Go.
    root: Option<PathBuf>,
}

/// Finds Go on this machine, or fetches it.
pub(super) fn get() -> Result<Go, String> {
    let installed = PLACES.iter().find(|place| is_new_enough(Path::new(place)));
    if let Some(program) = installed {
        return Ok(Go { program: program.into(), root: None });
    }
    let told = |why| format!("it is built with Go, which is not to be had: {why}");
    let home = UNPACKED.find().map_or_else(|| UNPACKED.get(check), Ok).map_err(told)?;
    unpacked_in(&home)
}

/// Builds the program of a module, given as path and version, into the folder. Go verifies what it fetches.
pub(super) fn build(go: &Go, module: &str, part: &Path, folder: &Path) -> Result<(), String> {
    let mut install = Command::new(&go.program);
    install.args(["install", "-trimpath", "-modcacherw", module]).env("GOBIN", folder);
    // Downloads and build output stay below `part`, which is deleted afterwards. No C compiler is needed.
    install.env("GOPATH", part.join("go")).env("GOCACHE", part.join("go-cache"));
    install.envs([("GOTOOLCHAIN", "auto"), ("CGO_ENABLED", "0"), ("GOFLAGS", "")]);
    if let Some(root) = &go.root {
        install.env("GOROOT", root);
    }
    fetch::run(&mut install, part, BUILT)
}

fn check(home: &Path) -> Result<(), String> {
    let go = unpacked_in(home)?.program;
    debian::try_program(home, &go.to_string_lossy(), &["version"])
}

fn unpacked_in(home: &Path) -> Result<Go, String> {
    let folders =
        fs::read_dir(home.join("usr/lib")).into_iter().flatten().flatten().map(|entry| entry.path());
    let root = folders.into_iter().find(|folder| folder.join("bin/go").is_file());
    let root = root.ok_or("there is no Go in the package")?;
    Ok(Go { program: root.join("bin/go"), root: Some(root) })
}

fn is_new_enough(program: &Path) -> bool {
    let said = process::answer(Command::new(program).arg("version").env("GOTOOLCHAIN", "local"));
    said.ok().and_then(|said| release_in(&said)).is_some_and(|release| release >= OLDEST)
}

/// The release in a line such as `go version go1.26.8 linux/amd64`.
fn release_in(line: &str) -> Option<(u32, u32)> {
    let mut numbers = line.split_whitespace().nth(2)?.strip_prefix("go")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_what_go_says() {
        assert_eq!(release_in("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(release_in("go version go1.19 linux/amd64"), Some((1, 19)));
        assert_eq!(release_in("go version devel +1 linux/amd64"), None);
    }
}
