//! Programs and libraries that tests use in addition to servers.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::debian::{Suite, Unpacked};
use super::start;

/// A Debian program or library that tests find by an environment variable.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) variable: &'static str,
    /// Where systems install it.
    places: fn() -> Vec<PathBuf>,
    unpacked: Unpacked,
    /// Its path in the unpacked folder.
    file: fn() -> String,
}

/// A connection pooler for PostgreSQL.
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

/// A library that changes the clock of a process.
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

/// Counts the instructions of a program.
static VALGRIND: Tool = Tool {
    name: "valgrind",
    variable: "PILLARBOX_TEST_VALGRIND",
    // Debian's `valgrind` is a script that starts this program.
    places: || ["/usr/bin/valgrind.bin", "/usr/bin/valgrind"].map(PathBuf::from).into(),
    unpacked: Unpacked {
        suite: Suite::Bookworm,
        package: "valgrind",
        parts: &[],
        programs: &["usr/bin/valgrind.bin"],
    },
    file: || "usr/bin/valgrind.bin".into(),
};

/// All tools.
pub(super) static TOOLS: [&Tool; 3] = [&PGBOUNCER, &LIBFAKETIME, &VALGRIND];

impl Tool {
    /// The installed tool, if there is one.
    fn installed(&self) -> Option<PathBuf> {
        (self.places)().into_iter().find(|place| place.is_file())
    }

    /// The folder of the unpacked tool, which is fetched if necessary.
    fn home(&self) -> Result<PathBuf, String> {
        self.unpacked.find().map_or_else(|| self.unpacked.get(|home| self.check(home)), Ok)
    }

    /// Whether nothing has to be fetched.
    pub(super) fn is_there(&self) -> bool {
        self.installed().is_some() || self.unpacked.find().is_some()
    }

    /// The path of the tool, readable for every user. If necessary, the tool is copied to the folder.
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
