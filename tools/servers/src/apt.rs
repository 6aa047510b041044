//! Installs tools of Debian that start no service.

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::cache;
use super::runner::our_id;
use crate::process;

const LIMIT: Duration = Duration::from_secs(10 * 60);
/// Lets a package be waited for that somebody else is installing, and an archive that is away be noticed.
const OPTIONS: [&str; 5] = [
    "-oDPkg::Lock::Timeout=120",
    "-oAcquire::http::Timeout=10",
    "-oAcquire::https::Timeout=10",
    "-oAcquire::Retries=1",
    "-oAPT::Update::Error-Mode=any",
];

/// Installs a package if we may; otherwise, or if that fails, says what to install.
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
    // The lists of a fresh system are empty or old.
    let added = add().or_else(|_| apt_get(&["update"]).and_then(|()| add()));
    added.map_err(|why| format!("install the package `{package}`; {why}"))
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let folder = cache::folder()?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let log = folder.join("apt.log");
    // It may outlive us, since a package that is half installed breaks the system.
    let mut command = Command::new("apt-get");
    let line = process::line_of(command.args(arguments));
    command.args(OPTIONS).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
    process::logged(&mut command, &line, &log, LIMIT)
}
