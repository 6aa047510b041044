//! Unpacks Debian packages into a folder, whose programs run with the folder's own loader.
//!
//! The system does not change: package lists, preferences and packages are kept apart from it.

mod sources;
mod suite;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub(super) use suite::Suite;

use super::{cache, fetch};
use crate::process;

const UNPACKED: Duration = Duration::from_secs(2 * 60);
/// Folders that no server reads. They are half of the unpacked files.
const UNREAD: [&str; 5] =
    ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/i18n", "usr/include"];
/// A library whose package name does not begin with `lib`.
const ZLIB: &str = "zlib1g";

/// The software of one package and its dependencies.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) suite: Suite,
    pub(super) package: &'static str,
    /// Name prefixes of further packages to unpack, in addition to libraries.
    pub(super) parts: &'static [&'static str],
    /// Programs that tests or other programs start by their paths.
    pub(super) programs: &'static [&'static str],
}

impl Unpacked {
    /// The folder that takes the place of `/`, if the software has been unpacked before.
    pub(super) fn find(&self) -> Option<PathBuf> {
        cache::cached(&self.folder())
    }

    /// Fetches and unpacks the software, calls `complete` for the rest, and caches it.
    pub(super) fn get(&self, complete: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
        if !process::is_there("apt-get") {
            return Err(format!("there is no apt-get to get Debian's `{}` with", self.package));
        }
        cache::keep(&self.folder(), |part| {
            let home = self.unpack(part)?;
            complete(&home)?;
            Ok(home)
        })
    }

    /// Fetches the packages and unpacks them below the folder. Returns the folder that takes the place of
    /// `/`.
    pub(super) fn unpack(&self, part: &Path) -> Result<PathBuf, String> {
        let (home, packages) = (part.join("root"), part.join("packages"));
        for folder in [&home, &packages] {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        self.suite.download(self.package, |name| self.uses(name), &packages)?;
        let files = fs::read_dir(&packages).into_iter().flatten().flatten().map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "deb")) {
            fetch::run(Command::new("dpkg-deb").arg("-x").arg(file).arg(&home), part, UNPACKED)?;
        }
        for folder in UNREAD {
            // A folder that can't be removed only takes up space.
            let _ = fs::remove_dir_all(home.join(folder));
        }
        self.programs.iter().try_for_each(|program| wrap(&home, program))?;
        Ok(home)
    }

    /// Whether a package is a library or a part of the server. Others are needed only to install packages.
    fn uses(&self, name: &str) -> bool {
        let is_script = ["libperl", "libpython"].iter().any(|start| name.starts_with(start));
        let is_library = name.starts_with("lib") && !is_script && !name.ends_with("-perl");
        let is_part = || self.parts.iter().any(|part| name.starts_with(part));
        is_library || name == self.package || name == ZLIB || is_part()
    }

    fn folder(&self) -> String {
        format!("{}-{}", self.suite.name(), self.package)
    }
}

/// Checks that a program of the unpacked folder starts, since only working software is cached.
pub(super) fn try_program(home: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let beside = home.parent().unwrap_or(home);
    fetch::run(Command::new(home.join(program)).args(arguments), beside, process::SHORT)
}

/// Checks that a library of the unpacked folder finds all its dependencies.
pub(super) fn try_library(home: &Path, library: &str) -> Result<(), String> {
    let mut list = Command::new(loader(home));
    list.arg("--library-path").arg(library_path(home)).arg("--list").arg(home.join(library));
    process::answer(&mut list).map(|_| ()).map_err(|why| format!("`{library}` lacks something: {why}"))
}

/// The dynamic loader for this architecture in the unpacked folder.
fn loader(home: &Path) -> PathBuf {
    let name = if env::consts::ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
    // Bookworm has the C library below `lib`, later releases below `usr/lib`.
    let old = Path::new("lib").join(triplet()).join(name);
    let place = if home.join(&old).exists() { old } else { Path::new("usr/lib").join(triplet()).join(name) };
    home.join(place)
}

/// The library folders. Those of `blas` and `lapack` are included because installing the packages would
/// create links to them, and that of PostgreSQL because its extensions need each other.
fn library_path(home: &Path) -> String {
    let own = triplet();
    let folders = [
        format!("usr/lib/{own}"),
        format!("lib/{own}"),
        format!("usr/lib/{own}/blas"),
        format!("usr/lib/{own}/lapack"),
        "usr/lib/postgresql/18/lib".into(),
    ];
    folders.map(|folder| home.join(folder).display().to_string()).join(":")
}

fn triplet() -> String {
    format!("{}-linux-gnu", env::consts::ARCH)
}

/// Replaces a program with a script that starts it with the folder's own loader.
///
/// Other programs of the folder can still start it by its path, and the folder can be moved.
fn wrap(home: &Path, program: &str) -> Result<(), String> {
    let depth = Path::new(program).components().count() - 1;
    let to_home = format!("$here{}", "/..".repeat(depth));
    let root = Path::new(&to_home);
    let loader = loader(home);
    let loader = root.join(loader.strip_prefix(home).unwrap_or(&loader));
    let script = format!(
        "#!/bin/sh\nhere=${{0%/*}}\nexec \"{}\" --library-path \"{}\" --argv0 \"$0\" \"$0.program\" \"$@\"\n",
        loader.display(),
        library_path(root)
    );
    let (place, beside) = (home.join(program), home.join(format!("{program}.program")));
    fs::rename(&place, &beside).map_err(|error| format!("{}: {error}", place.display()))?;
    write_script(&place, &script)
}

/// Writes a script that every user can run.
pub(super) fn write_script(place: &Path, script: &str) -> Result<(), String> {
    fs::write(place, script).map_err(|error| format!("{}: {error}", place.display()))?;
    process::answer(Command::new("chmod").arg("755").arg(place)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_parts_are_used_and_the_rest_is_not() {
        let postgres = Unpacked {
            suite: Suite::Bookworm,
            package: "postgresql-15",
            parts: &["postgresql-client-15"],
            programs: &[],
        };
        let all =
            ["libc6", "libperl5.36", "libjson-perl", "postgresql-15", "postgresql-client-15", "perl", ZLIB];
        let used: Vec<_> = all.into_iter().filter(|name| postgres.uses(name)).collect();
        assert_eq!(used, ["libc6", "postgresql-15", "postgresql-client-15", ZLIB]);
        assert_eq!(postgres.folder(), "bookworm-postgresql-15");
    }

    #[cfg(unix)]
    #[test]
    fn a_wrapped_program_finds_its_loader_wherever_the_folder_is() {
        let temp = env::temp_dir().join(format!("pillarbox-wrap-{}", std::process::id()));
        let before = temp.join("before");
        let own = loader(&before);
        for folder in [own.parent().unwrap(), &before.join("usr/lib/db/bin")] {
            fs::create_dir_all(folder).unwrap();
        }
        // Stands for the loader, and prints how it was called.
        fs::write(&own, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        fs::write(before.join("usr/lib/db/bin/server"), "").unwrap();
        assert!(process::succeeds(Command::new("chmod").arg("755").arg(&own)));
        wrap(&before, "usr/lib/db/bin/server").unwrap();
        let after = temp.join("after");
        fs::rename(&before, &after).unwrap();
        let server = after.join("usr/lib/db/bin/server");
        let called = process::answer(Command::new(&server).arg("-V")).unwrap();
        let words: Vec<&str> = called.lines().collect();
        assert!(words[1].contains("usr/lib/db/bin/../../../../usr/lib/"), "{called}");
        let (server, program) = (server.display(), format!("{}.program", server.display()));
        assert_eq!(words[2..], ["--argv0", &server.to_string(), &program, "-V"]);
        fs::remove_dir_all(&temp).unwrap();
    }
}
