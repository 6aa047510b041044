//! PostgreSQL: the oldest supported release and the newest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked};
use super::{Necessity, Server, Site, exports, port};

/// The variable that names the folder of the programs for tests that start their own servers.
const BIN: &str = "PILLARBOX_TEST_POSTGRES_BIN";

/// `fsync` stays on, because tests kill servers and check that committed data is still there.
const SETTINGS: [(&str, &str); 5] = [
    ("wal_level", "logical"),
    ("max_connections", "300"),
    ("shared_buffers", "256MB"),
    ("max_prepared_transactions", "10"),
    ("log_min_messages", "warning"),
];

/// Uses a collation that differs from the order of bytes, as most databases in production do.
const INITDB: [&str; 7] = [
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=icu",
    "--icu-locale=en-US",
    "--no-sync",
];

/// Where Debian, Red Hat and Homebrew install a release, without its number.
const HOMES: [&str; 4] =
    ["/usr/lib/postgresql/", "/usr/pgsql-", "/opt/homebrew/opt/postgresql@", "/usr/local/opt/postgresql@"];

/// A release of PostgreSQL.
#[derive(Debug)]
pub(super) struct Postgres {
    name: &'static str,
    variable: &'static str,
    need: Necessity,
    port: u16,
    release: &'static str,
    /// The packages to unpack if the release is not installed.
    unpacked: Unpacked,
}

/// The programs that we and the tests start.
const PROGRAMS: [&str; 3] = ["initdb", "postgres", "psql"];

pub(super) static FIFTEEN: Postgres = Postgres {
    name: "postgres-15",
    variable: "PILLARBOX_TEST_POSTGRES_URL",
    need: Necessity::Must,
    port: 15_415,
    release: "15",
    unpacked: Unpacked {
        suite: Suite::Bookworm,
        package: "postgresql-15",
        parts: &["postgresql-client-15"],
        programs: &[
            "usr/lib/postgresql/15/bin/initdb",
            "usr/lib/postgresql/15/bin/postgres",
            "usr/lib/postgresql/15/bin/psql",
        ],
    },
};

pub(super) static EIGHTEEN: Postgres = Postgres {
    name: "postgres-18",
    variable: "PILLARBOX_TEST_POSTGRES_18_URL",
    need: Necessity::May,
    port: 15_418,
    release: "18",
    unpacked: Unpacked {
        suite: Suite::Unstable,
        package: "postgresql-18",
        parts: &["postgresql-client-18"],
        programs: &[
            "usr/lib/postgresql/18/bin/initdb",
            "usr/lib/postgresql/18/bin/postgres",
            "usr/lib/postgresql/18/bin/psql",
        ],
    },
};

impl Server for Postgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variable(&self) -> &'static str {
        self.variable
    }

    fn need(&self) -> Necessity {
        self.need
    }

    fn preferred_port(&self) -> u16 {
        self.port
    }

    fn stop_signal(&self) -> &'static str {
        "QUIT"
    }

    fn find(&self) -> Option<PathBuf> {
        let is_complete =
            |home: &PathBuf| PROGRAMS.iter().all(|program| home.join("bin").join(program).is_file());
        let installed = self.homes(exports::variable).into_iter().find(is_complete);
        installed.or_else(|| self.unpacked.find().map(|root| self.home_in(&root)))
    }

    fn install(&self) -> Result<PathBuf, String> {
        let check = |root: &Path| {
            let mut programs = self.unpacked.programs.iter();
            programs.try_for_each(|program| debian::try_program(root, program, &["-V"]))
        };
        let named = if self.is_oldest() { format!(" or {BIN}") } else { String::new() };
        let advice = format!("install PostgreSQL {}, or set {}{named}", self.release, self.variable);
        let root = self.unpacked.get(check).map_err(|why| format!("{why}\n    {advice}"))?;
        Ok(self.home_in(&root))
    }

    fn preparation(&self, site: &Site) -> Vec<Command> {
        let mut initdb = Command::new(site.home.join("bin/initdb"));
        initdb.args(INITDB).arg("-D").arg(&site.data);
        vec![initdb]
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut postgres = Command::new(site.home.join("bin/postgres"));
        postgres.arg("-D").arg(&site.data).args(["-p", &port.to_string()]);
        // Relative to the data folder, because the path of a socket must be short.
        postgres.args(["-c", "unix_socket_directories=.", "-c", "listen_addresses=127.0.0.1"]);
        SETTINGS.iter().for_each(|(name, value)| {
            postgres.args(["-c", &format!("{name}={value}")]);
        });
        postgres
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        is_ready_in(&site.data) && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        if self.is_oldest() { vec![(BIN, home.join("bin").display().to_string())] } else { Vec::new() }
    }
}

impl Postgres {
    /// Where the release may be installed. For the oldest release, the folder that the user has set comes
    /// first.
    fn homes(&self, lookup: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
        let said = lookup(BIN).filter(|_| self.is_oldest());
        let said = said.and_then(|bin| Path::new(&bin).parent().map(Path::to_owned));
        let usual = HOMES.iter().map(|home| PathBuf::from(format!("{home}{}", self.release)));
        said.into_iter().chain(usual).collect()
    }

    fn is_oldest(&self) -> bool {
        self.name == FIFTEEN.name
    }

    fn home_in(&self, root: &Path) -> PathBuf {
        root.join("usr/lib/postgresql").join(self.release)
    }
}

/// Whether the server of a data folder has started.
pub(super) fn is_ready_in(data: &Path) -> bool {
    says_ready(&fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default())
}

/// Whether the eighth line of `postmaster.pid` says `ready`. `pg_ctl` waits for it too.
fn says_ready(status: &str) -> bool {
    status.lines().nth(7).is_some_and(|line| line.trim_end() == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_still_starts_is_not_ready() {
        let file = |status| format!("7\n/data\n1\n15415\n.\n127.0.0.1\n 1 2\n{status}\n");
        assert!(says_ready(&file("ready   ")));
        assert!(!says_ready(&file("starting")));
        assert!(!says_ready("7\n/data\n"));
    }

    #[test]
    fn the_folder_the_user_names_goes_first() {
        let said = |name: &str| (name == BIN).then(|| "/opt/pg/bin".to_owned());
        let homes = FIFTEEN.homes(said);
        assert_eq!(homes[..2], [Path::new("/opt/pg"), Path::new("/usr/lib/postgresql/15")]);
        assert_eq!(EIGHTEEN.homes(said)[0], Path::new("/usr/lib/postgresql/18"));
        assert_eq!(FIFTEEN.extras(Path::new("/opt/pg")), [(BIN, "/opt/pg/bin".to_owned())]);
        assert!(EIGHTEEN.extras(Path::new("/opt/pg")).is_empty());
    }

    #[test]
    fn docker_gets_the_same_settings_and_ports() {
        let compose = crate::compose();
        for release in [&FIFTEEN, &EIGHTEEN] {
            let (name, image, port) = (release.name, release.release, release.port);
            assert!(compose.contains(&format!("  {name}:")), "{name}");
            assert!(compose.contains(&format!("image: postgres:{image}")), "{name}");
            assert!(compose.contains(&format!("127.0.0.1:{port}:5432")), "{name}");
        }
        assert!(SETTINGS.iter().all(|(name, value)| compose.contains(&format!("{name}={value}"))));
        assert!(INITDB.iter().skip(2).take(4).all(|option| compose.contains(option)));
    }
}
