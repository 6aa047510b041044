//! File locks between processes of this program; the system releases them when their holder ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::process;

/// After this long a waiting process prints what it waits for.
const SILENT: Duration = Duration::from_secs(1);

/// Takes an exclusive lock. `holder` describes what another process does that has it.
pub(super) fn exclusive(path: &Path, patience: Duration, holder: &str) -> Result<File, String> {
    take(path, patience, holder, |file| file.try_lock().is_ok())
}

/// Takes a shared lock.
pub(super) fn shared(path: &Path, patience: Duration, holder: &str) -> Result<File, String> {
    take(path, patience, holder, |file| file.try_lock_shared().is_ok())
}

fn take(path: &Path, patience: Duration, holder: &str, lock: impl Fn(&File) -> bool) -> Result<File, String> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if process::wait_until(SILENT.min(patience), || lock(&file)) {
        return Ok(file);
    }
    eprintln!("waiting for another run that {holder}");
    let is_locked = process::wait_until(patience, || lock(&file));
    is_locked.then_some(file).ok_or_else(|| format!("{}: held by another run that {holder}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs;

    use super::*;

    #[test]
    fn a_lock_is_held_against_others_until_it_is_dropped() {
        let path = env::temp_dir().join(format!("pillarbox-lock-{}", std::process::id()));
        let held = exclusive(&path, Duration::ZERO, "tests").unwrap();
        let why = shared(&path, Duration::ZERO, "tests").unwrap_err();
        assert!(why.ends_with("held by another run that tests"), "{why}");
        drop(held);
        let _one = shared(&path, Duration::ZERO, "tests").unwrap();
        let _two = shared(&path, Duration::ZERO, "tests").unwrap();
        fs::remove_file(&path).unwrap();
    }
}
