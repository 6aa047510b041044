//! Installs packages on Debian and its kin.

use std::io;
use std::process::Command;
use std::time::Duration;

use super::runner::our_id;
use crate::process;

const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Installs a package if we may; otherwise, or if that fails, says what to install.
pub(crate) fn install(package: &str) -> Result<(), String> {
    let please = |why: &str| format!("{why}: install the package `{package}`");
    if !process::is_there("apt-get") {
        return Err(please("it is not installed"));
    }
    if our_id()? != "0" {
        return Err(please("it is not installed and you are not root"));
    }
    eprintln!("installing {package}");
    let added = apt_get(&["install", "-y", "--no-install-recommends", package]);
    // The lists of a fresh system are empty or old.
    let added = added.or_else(|_| {
        apt_get(&["update"]).and_then(|()| apt_get(&["install", "-y", "--no-install-recommends", package]))
    });
    added.map_err(|why| please(&format!("apt-get failed ({why})")))
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(io::stderr());
    process::finish(&mut command, LIMIT)
}
