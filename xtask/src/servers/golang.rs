//! Builds software that is published as a Go module.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fetch;
use crate::process;

const BUILT: Duration = Duration::from_secs(15 * 60);
/// Where Go's own archive puts it, which not everybody has among the folders of programs.
const USUAL: &str = "/usr/local/go/bin/go";

/// Builds the program of a module, by its path and version, into the folder; Go checks what it fetches.
pub(super) fn build(go: &Path, module: &str, folder: &Path) -> Result<(), String> {
    eprintln!("building {module}");
    let mut install = Command::new(go);
    install.args(["install", "-trimpath", module]).env("GOBIN", folder);
    fetch::run(&mut install, folder, BUILT)
}

/// Looks for Go on this machine.
pub(super) fn find() -> Result<PathBuf, String> {
    if process::is_there("go") {
        return Ok("go".into());
    }
    let usual = Some(PathBuf::from(USUAL)).filter(|go| go.is_file());
    usual.ok_or_else(|| "it is built with Go, which is not installed".into())
}
