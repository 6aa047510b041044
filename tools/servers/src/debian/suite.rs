//! A suite of Debian packages, whose package lists a run fetches at most once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::sources;
use crate::process;
use crate::{cache, fetch, lock};

const APT: &str = "/etc/apt";
/// Time limits. An unavailable archive fails much earlier, by its connection timeouts.
const UPDATED: Duration = Duration::from_secs(3 * 60);
const DOWNLOADED: Duration = Duration::from_secs(10 * 60);
const PATIENCE: Duration = Duration::from_secs(15 * 60);
const CONFIGURATION: &str = "apt.conf";

/// The suites that software is unpacked from, independent of this machine's release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Suite {
    /// Debian 12, with the versions that its users have.
    Bookworm,
    /// Debian's unstable release, with the newest versions.
    Unstable,
}

impl Suite {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Unstable => "sid",
        }
    }

    /// Downloads the packages that `package` needs and that the filter accepts.
    pub(super) fn download(
        self,
        package: &str,
        is_used: impl Fn(&str) -> bool,
        folder: &Path,
    ) -> Result<(), String> {
        let lists = cache::folder()?.join(format!("{}.lists", self.name()));
        self.update_once(&lists)?;
        // The lock prevents changes of the lists while they are read.
        let _lock = lock::shared(&lists.join("lock"), PATIENCE, "updates the lists of packages")?;
        let mut install = apt_get(&lists);
        install.args(["install", "-y", "--print-uris", package]).env("LC_ALL", "C");
        let listed = process::answer(&mut install)
            .map_err(|why| format!("there is no `{package}` in {}: {why}", self.name()))?;
        let needed = listed.lines().filter_map(name_in).filter(|name| is_used(name));
        // apt verifies each package by its hash in the signed lists.
        fetch::run(apt_get(&lists).args(["-qq", "download"]).args(needed), folder, DOWNLOADED)
    }

    /// Fetches the lists unless this run has tried before.
    fn update_once(self, lists: &Path) -> Result<(), String> {
        static BOOKWORM: OnceLock<Result<(), String>> = OnceLock::new();
        static UNSTABLE: OnceLock<Result<(), String>> = OnceLock::new();
        let updated = match self {
            Self::Bookworm => &BOOKWORM,
            Self::Unstable => &UNSTABLE,
        };
        updated.get_or_init(|| self.update(lists)).clone()
    }

    fn update(self, lists: &Path) -> Result<(), String> {
        for folder in ["nothing", "lists/partial", "archives/partial"].map(|name| lists.join(name)) {
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let _lock = lock::exclusive(&lists.join("lock"), PATIENCE, "fetches packages")?;
        let write = |name: &str, text: &str| {
            let path = lists.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display())).map(|()| path)
        };
        let (name, source) = self.own_source()?;
        let source = write(name, &source)?;
        // An empty status file: packages installed in the system do not count.
        write("status", "")?;
        write(CONFIGURATION, &configuration(lists, &source))?;
        let log = File::create(lists.join("log"));
        log.map_err(|error| format!("{}: {error}", lists.display()))?;
        fetch::run(apt_get(lists).args(["-qq", "update"]), lists, UPDATED)
    }

    /// The name and the content of the suite's source file.
    fn own_source(self) -> Result<(&'static str, String), String> {
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let codename = sources::codename(&release).ok_or("it is unpacked from packages on Debian only")?;
        let apt = Path::new(APT);
        let folder = fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().flatten();
        let mut files = folder.map(|entry| entry.path()).chain([apt.join("sources.list")]);
        let source = files.find_map(|file: PathBuf| {
            let text = fs::read_to_string(&file).ok()?;
            match file.extension()?.to_str()? {
                "sources" => Some(("own.sources", sources::from_stanzas(&text, codename, self.name())?)),
                "list" => Some(("own.list", sources::from_lines(&text, codename, self.name())?)),
                _ => None,
            }
        });
        source.ok_or_else(|| format!("no source of Debian's packages in {APT}"))
    }
}

/// `apt-get` with the configuration of the folder instead of the system's.
fn apt_get(lists: &Path) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-c").arg(lists.join(CONFIGURATION));
    command
}

/// The configuration that keeps apt away from the system's lists, preferences and locks.
fn configuration(lists: &Path, source: &Path) -> String {
    let (lists, source) = (lists.display(), source.display());
    [
        format!("Dir::Etc::sourcelist \"{source}\";"),
        format!("Dir::Etc::sourceparts \"{lists}/nothing\";"),
        format!("Dir::Etc::preferences \"{lists}/nothing\";"),
        format!("Dir::Etc::preferencesparts \"{lists}/nothing\";"),
        format!("Dir::State \"{lists}\";"),
        format!("Dir::State::status \"{lists}/status\";"),
        format!("Dir::Cache \"{lists}\";"),
        // No cache files: several processes read the lists at once, and none may write what another reads.
        "Dir::Cache::pkgcache \"\";".into(),
        "Dir::Cache::srcpkgcache \"\";".into(),
        // apt would otherwise switch to a user that can't read the folder.
        "APT::Sandbox::User \"\";".into(),
        "APT::Install-Recommends \"false\";".into(),
        "Acquire::Languages \"none\";".into(),
        // An archive that does not answer must fail within the first minute of a run.
        "Acquire::Retries \"1\";".into(),
        "Acquire::http::Timeout \"10\";".into(),
        "Acquire::https::Timeout \"10\";".into(),
        // Without this, lists that could not be fetched would count as empty.
        "APT::Update::Error-Mode \"any\";".into(),
        "Debug::NoLocking \"1\";".into(),
    ]
    .join("\n")
}

/// The package name in a line such as `'http://…/libc6_2.43-7_amd64.deb' libc6_2.43-7_amd64.deb 1866392
/// SHA256:…`.
fn name_in(line: &str) -> Option<&str> {
    line.strip_prefix('\'')?.split_whitespace().nth(1)?.split('_').next()
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
    fn apt_is_kept_in_the_folder() {
        let text = configuration(Path::new("/c/sid.lists"), Path::new("/c/sid.lists/own.list"));
        assert!(text.contains("Dir::State \"/c/sid.lists\";"), "{text}");
        assert!(text.contains("Dir::Etc::sourcelist \"/c/sid.lists/own.list\";"), "{text}");
        assert!(text.lines().all(|line| line.ends_with("\";")), "{text}");
    }
}
