//! Programs and libraries that tests use beside servers, and that run without one of ours.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::debian::{Suite, Unpacked};
use super::start;

/// Something of Debian that a test finds by a variable.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    /// Where systems put it.
    places: fn() -> Vec<PathBuf>,
    unpacked: Unpacked,
    /// Its place in the unpacked folder.
    file: fn() -> String,
}

/// A pooler before PostgreSQL.
static PGBOUNCER: Tool = Tool {
    name: "pgbouncer",
    variable: "PILLARBOX_TEST_PGBOUNCER",
    places: || {
        ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join("pgbouncer")).into()
    },
    unpacked: Unpacked {
        suite: Suite::Bookworm,
        package: "pgbouncer",
        parts: &[],
        programs: &["usr/sbin/pgbouncer"],
    },
    file: || "usr/sbin/pgbouncer".into(),
};

/// Gives a process another clock.
static LIBFAKETIME: Tool = Tool {
    name: "libfaketime",
    variable: "PILLARBOX_TEST_LIBFAKETIME",
    places: || {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
        let all = folders.chain(["/usr/lib", "/usr/lib64"].map(PathBuf::from));
        all.map(|folder| folder.join("faketime/libfaketime.so.1")).collect()
    },
    unpacked: Unpacked { suite: Suite::Bookworm, package: "libfaketime", parts: &[], programs: &[] },
    file: || format!("usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", env::consts::ARCH),
};

/// Every one of them.
pub(super) static TOOLS: [&Tool; 2] = [&PGBOUNCER, &LIBFAKETIME];

impl Tool {
    /// The tool as it is installed.
    fn installed(&self) -> Option<PathBuf> {
        (self.places)().into_iter().find(|place| place.is_file())
    }

    /// The folder of the unpacked one, which is fetched if need be.
    fn home(&self) -> Result<PathBuf, String> {
        self.unpacked.find().map_or_else(|| self.unpacked.get(|home| self.check(home)), Ok)
    }

    /// Tells whether nothing must be fetched.
    pub(super) fn is_there(&self) -> bool {
        self.installed().is_some() || self.unpacked.find().is_some()
    }

    /// Its path, which every user can read; a copy, if one is needed, is made in the folder.
    pub(super) fn get(&self, folder: &Path) -> Result<PathBuf, String> {
        if let Some(place) = self.installed() {
            return Ok(place);
        }
        let home = self.home()?;
        let file = home.join((self.file)());
        Ok(start::make_readable(home, &file, folder)?.join((self.file)()))
    }

    fn check(&self, home: &Path) -> Result<(), String> {
        let file = home.join((self.file)());
        if file.is_file() { Ok(()) } else { Err(format!("there is no {} in the package", (self.file)())) }
    }
}
