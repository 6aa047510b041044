//! Runs the programs that fetch, unpack and build software.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process;

/// The file of the programs' output, in their working folder.
const LOG: &str = "log";

/// Runs a command in a folder. It ends at the limit, or with this program.
pub(super) fn run(command: &mut Command, folder: &Path, limit: Duration) -> Result<(), String> {
    let mut bound = process::bound(command);
    // Messages are searched and shown, so their language must not depend on the user.
    bound.current_dir(folder).env("LC_ALL", "C");
    process::logged(&mut bound, &process::line_of(command), &folder.join(LOG), limit)
}
