//! Runs the programs that fetch, unpack and build software.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process;

/// What the programs print, in the folder that they work in.
const LOG: &str = "log";

/// Runs a command in a folder, not longer than the limit or than this program lives.
pub(super) fn run(command: &mut Command, folder: &Path, limit: Duration) -> Result<(), String> {
    let mut bound = process::bound(command);
    // Messages are searched and shown, so their language must not depend on who runs this.
    bound.current_dir(folder).env("LC_ALL", "C");
    process::logged(&mut bound, &process::line_of(command), &folder.join(LOG), limit)
}
