//! The folder of the demo's database, deleted at the end unless it is kept.

use std::fs;
use std::path::{Path, PathBuf};

use pillarbox_terminal::error::{CommandError, CommandResult};
use tempfile::TempDir;

const FILE: &str = "demo.db";

/// The folder of one run.
#[derive(Debug)]
pub(crate) struct DemoFolder {
    folder: PathBuf,
    /// Deletes the folder on drop.
    _temporary: Option<TempDir>,
}

impl DemoFolder {
    /// A given folder, which is kept.
    pub(crate) fn in_folder(folder: &Path) -> CommandResult<Self> {
        let name = folder.display();
        fs::create_dir_all(folder)
            .map_err(|error| CommandError::usage(format!("--dir {name} can't be made: {error}")))?;
        if folder.join(FILE).exists() {
            let message = format!("there is a {FILE} in --dir {name} already");
            return Err(CommandError::usage(message).hint("name a folder without one, or delete it"));
        }
        Ok(Self { folder: folder.to_owned(), _temporary: None })
    }

    /// A temporary folder that is deleted with this value.
    pub(crate) fn temporary() -> CommandResult<Self> {
        let made = tempfile::Builder::new().prefix("pillarbox-demo-").tempdir()?;
        Ok(Self { folder: made.path().to_owned(), _temporary: Some(made) })
    }

    /// A temporary folder that is kept.
    pub(crate) fn kept() -> CommandResult<Self> {
        let made = tempfile::Builder::new().prefix("pillarbox-demo-").tempdir()?;
        Ok(Self { folder: made.keep(), _temporary: None })
    }

    /// The path of the database.
    pub(crate) fn database(&self) -> PathBuf {
        self.folder.join(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_goes_and_others_stay() {
        let temporary = DemoFolder::temporary().unwrap();
        let folder = temporary.folder.clone();
        fs::write(temporary.database(), "").unwrap();
        drop(temporary);
        assert!(!folder.exists());

        let own = TempDir::new().unwrap();
        let folder = DemoFolder::in_folder(&own.path().join("a/b")).unwrap();
        fs::write(folder.database(), "").unwrap();
        let database = folder.database();
        drop(folder);
        assert!(database.exists());
        assert!(DemoFolder::in_folder(&own.path().join("a/b")).is_err());
    }
}
