//! Installs Debian packages that start no service.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::cache;
use super::runner::our_id;
use crate::process;

const LIMIT: Duration = Duration::from_secs(10 * 60);
/// Waits for another installation in progress, and notices an unavailable archive early.
const OPTIONS: [&str; 5] = [
    "-oDPkg::Lock::Timeout=120",
    "-oAcquire::http::Timeout=10",
    "-oAcquire::https::Timeout=10",
    "-oAcquire::Retries=1",
    "-oAPT::Update::Error-Mode=any",
];

/// Installs a package if we have the rights. Otherwise, or if it fails, the error says what to install.
pub fn install(package: &str) -> Result<(), String> {
    if !process::is_there("apt-get") {
        return Err(format!("install the package `{package}`"));
    }
    if our_id()? != "0" {
        return Err(format!("you are not root: have the package `{package}` installed"));
    }
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    eprintln!("installing {package}");
    let add = || apt_get(&["install", "-y", "--no-install-recommends", package]);
    // The package lists of a new system are empty or stale, so a failure leads to an update and a second try.
    let added = add().or_else(|_| apt_get(&["update"]).and_then(|()| add()));
    added.map_err(|why| format!("install the package `{package}`; {why}"))
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let log = folder.join("apt.log");
    // Not bound to this process: a half-installed package would break the system.
    let mut command = Command::new("apt-get");
    let line = process::line_of(command.args(arguments));
    command.args(OPTIONS).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    process::logged(&mut command, &line, &log, LIMIT)
}
