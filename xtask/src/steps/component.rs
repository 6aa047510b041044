//! Installs components of the toolchain that a minimal installation lacks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// Adds a component if its cargo command is missing. The error says that it could not be added.
pub(super) fn ensure(root: &Path, component: &str, command: &str) -> Result<(), String> {
    let is_there = || process::succeeds(process::cargo(root).args([command, "--version"]));
    if is_there() {
        return Ok(());
    }
    println!("adding {component} to the toolchain");
    let added = process::run(Command::new("rustup").args(["component", "add", component]));
    if added.is_ok() && is_there() {
        return Ok(());
    }
    Err(format!("{component} is missing and `rustup component add {component}` did not add it"))
}

/// A folder of the toolchain by rustc's name for it: `sysroot` or `target-libdir`.
pub(super) fn folder(root: &Path, name: &str) -> Option<PathBuf> {
    let mut rustc = Command::new("rustc");
    let folder = process::answer(rustc.args(["--print", name]).current_dir(root));
    folder.ok().map(PathBuf::from)
}
