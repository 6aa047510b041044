//! Unpacks software of Debian's unstable release into a folder that it runs from by its own loader.
//!
//! Nothing of the system changes: the lists, the choice of packages and the packages are kept apart.

mod sources;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::fetch;
use crate::process;

const FETCHED: Duration = Duration::from_secs(10 * 60);
const UNPACKED: Duration = Duration::from_secs(2 * 60);
const APT: &str = "/etc/apt";
/// Half of what is unpacked, and nothing a server reads.
const UNREAD: [&str; 5] =
    ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/i18n", "usr/include"];

/// The folders of libraries, seen from the first of them. Installing the packages would make links to those in two of
/// them, and extensions of PostgreSQL need each other.
const LIBRARIES: [&str; 4] = ["", "blas", "lapack", "../postgresql/18/lib"];

/// Fetches a package and the libraries it needs, and unpacks them all; gives the folder that stands for `/`.
pub(super) fn unpack(package: &str, parts: &[&str], part: &Path) -> Result<PathBuf, String> {
    let (root, packages) = (part.join("root"), part.join("packages"));
    for folder in
        ["root", "packages", "nothing", "lists/partial", "archives/partial"].map(|name| part.join(name))
    {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let options = options(part, &own_source(part)?)?;
    eprintln!("fetching {package} of Debian's unstable release");
    apt_get(&options, &["-qq", "update"], part)?;
    let mut install = Command::new("apt-get");
    install.args(&options).args(["install", "-y", "--print-uris", package]);
    let listed = process::answer(&mut install).map_err(|why| format!("there is no `{package}`: {why}"))?;
    let needed: Vec<&str> = listed.lines().filter_map(name_in).filter(|name| is_used(name, parts)).collect();
    // Each is held to the signed lists by its hash.
    apt_get(&options, &[&["-qq", "download"], needed.as_slice()].concat(), &packages)?;
    for file in fs::read_dir(&packages).into_iter().flatten().flatten() {
        fetch::run(Command::new("dpkg-deb").arg("-x").arg(file.path()).arg(&root), part, UNPACKED)?;
    }
    for folder in UNREAD {
        // One that stays only takes up room.
        let _ = fs::remove_dir_all(root.join(folder));
    }
    Ok(root)
}

/// A program of the unpacked folder, with the libraries of that folder.
pub(super) fn command(home: &Path, program: &str) -> Command {
    let mut command = Command::new(loader(home));
    command.arg("--library-path").arg(library_path(home)).arg(home.join(program));
    command
}

/// Tells whether a library of the unpacked folder finds all that it needs.
pub(super) fn try_library(home: &Path, library: &str) -> Result<(), String> {
    let mut list = Command::new(loader(home));
    list.arg("--library-path").arg(library_path(home)).arg("--list").arg(home.join(library));
    process::answer(&mut list).map(|_| ()).map_err(|why| format!("`{library}` lacks something: {why}"))
}

/// What starts programs of this machine's kind, by its path in the unpacked folder.
fn loader(home: &Path) -> PathBuf {
    let name = if env::consts::ARCH == "aarch64" { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
    home.join(libraries()).join(name)
}

fn library_path(home: &Path) -> String {
    let libraries = home.join(libraries());
    LIBRARIES.map(|folder| libraries.join(folder).display().to_string()).join(":")
}

fn libraries() -> String {
    format!("usr/lib/{}-linux-gnu", env::consts::ARCH)
}

/// A script that stands in the place of a program and starts it with the folder's own loader.
///
/// For a program that others of the same folder start; it may be moved with the folder.
pub(super) fn wrap(home: &Path, program: &str) -> Result<(), String> {
    let depth = Path::new(program).components().count() - 1;
    let to_home = format!("$here{}", "/..".repeat(depth));
    let root = Path::new(&to_home);
    let script = format!(
        "#!/bin/sh\nhere=${{0%/*}}\nexec \"{}\" --library-path \"{}\" --argv0 \"$0\" \"$0.program\" \"$@\"\n",
        loader(root).display(),
        library_path(root)
    );
    let (place, beside) = (home.join(program), home.join(format!("{program}.program")));
    let told = |error| format!("{}: {error}", place.display());
    fs::rename(&place, &beside).map_err(told)?;
    fs::write(&place, script).map_err(told)?;
    process::finish(Command::new("chmod").arg("755").arg(&place), process::SHORT)
}

/// Writes the source of unstable packages into the folder.
fn own_source(part: &Path) -> Result<PathBuf, String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = sources::codename(&release).ok_or("it is unpacked from packages on Debian only")?;
    let apt = Path::new(APT);
    let folder = fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().flatten();
    let files = folder.map(|entry| entry.path()).chain([apt.join("sources.list")]);
    let source = files.into_iter().find_map(|file| {
        let text = fs::read_to_string(&file).ok()?;
        match file.extension()?.to_str()? {
            "sources" => Some(("sid.sources", sources::from_stanzas(&text, codename)?)),
            "list" => Some(("sid.list", sources::from_lines(&text, codename)?)),
            _ => None,
        }
    });
    let (name, text) = source.ok_or_else(|| format!("no source of Debian's packages in {APT}"))?;
    let path = part.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// What keeps apt from the lists, the choices and the locks of the system.
fn options(part: &Path, source: &Path) -> Result<Vec<String>, String> {
    let nothing_installed = part.join("status");
    fs::write(&nothing_installed, "").map_err(|error| format!("{}: {error}", nothing_installed.display()))?;
    let folder = part.display();
    let settings = [
        format!("Dir::Etc::sourcelist={}", source.display()),
        format!("Dir::Etc::sourceparts={folder}/nothing"),
        format!("Dir::Etc::preferences={folder}/nothing"),
        format!("Dir::Etc::preferencesparts={folder}/nothing"),
        format!("Dir::State={folder}"),
        format!("Dir::State::status={}", nothing_installed.display()),
        format!("Dir::Cache={folder}"),
        // The folder is closed to the user that apt would otherwise become.
        "APT::Sandbox::User=".into(),
        "APT::Install-Recommends=false".into(),
        "Acquire::Languages=none".into(),
        "Acquire::Retries=3".into(),
        // Lists that could not be fetched would pass as empty ones.
        "APT::Update::Error-Mode=any".into(),
        "Debug::NoLocking=1".into(),
    ];
    Ok(settings.into_iter().flat_map(|setting| ["-o".into(), setting]).collect())
}

fn apt_get(options: &[String], arguments: &[&str], folder: &Path) -> Result<(), String> {
    fetch::run(Command::new("apt-get").args(options).args(arguments), folder, FETCHED)
}

/// The name of the package in a line as `'http://…/libc6_2.43-7_amd64.deb' libc6_2.43-7_amd64.deb 1866392 SHA256:…`.
fn name_in(line: &str) -> Option<&str> {
    line.strip_prefix('\'')?.split_whitespace().nth(1)?.split('_').next()
}

/// Tells the libraries and the server's own parts from what only installing a package needs.
fn is_used(name: &str, parts: &[&str]) -> bool {
    let is_library = name.starts_with("lib") && !name.starts_with("libperl") && !name.ends_with("-perl");
    is_library || parts.iter().any(|part| name.starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_by_the_lines_of_apt() {
        let line = "'http://mirror.example/l/libaio1t64_0.3.113-10_amd64.deb' libaio1t64_0.3.113-10_amd64.deb 14900 SHA256:0a";
        assert_eq!(name_in(line), Some("libaio1t64"));
        assert_eq!(name_in("Reading package lists..."), None);
        assert_eq!(name_in("'"), None);
    }

    #[test]
    fn libraries_and_parts_are_used_and_the_rest_is_not() {
        let used: Vec<_> = ["libc6", "libperl5.42", "libjson-perl", "mysql-server-core", "perl", "systemd"]
            .into_iter()
            .filter(|name| is_used(name, &["mysql-server"]))
            .collect();
        assert_eq!(used, ["libc6", "mysql-server-core"]);
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
