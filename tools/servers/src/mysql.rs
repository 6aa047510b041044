//! MariaDB and MySQL.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked};
use super::{Necessity, Server, Site, port};

const ACCOUNTS: &str = include_str!("mysql/accounts.sql");
const BOOTSTRAP: &str = include_str!("mysql/bootstrap.sh");

/// A commit is written to the operating system before it is acknowledged. That is enough, because tests kill
/// servers but never cut the power.
const SETTINGS: [(&str, &str); 7] = [
    ("innodb_flush_log_at_trx_commit", "2"),
    ("innodb_doublewrite", "0"),
    ("innodb_buffer_pool_size", "256M"),
    ("max_connections", "300"),
    ("character_set_server", "utf8mb4"),
    ("skip_log_bin", "ON"),
    ("skip_name_resolve", "ON"),
];

/// Where systems install MariaDB, and the path of the daemon below that.
const HOMES: [(&str, &str); 5] = [
    ("/usr", "sbin/mariadbd"),
    ("/usr", "libexec/mariadbd"),
    ("/usr", "bin/mariadbd"),
    ("/opt/homebrew/opt/mariadb", "bin/mariadbd"),
    ("/usr/local/opt/mariadb", "bin/mariadbd"),
];
/// Folders of the SQL that initialises a data folder, and the names of its first file.
const SHARES: [&str; 2] = ["share/mysql", "share/mariadb"];
const SYSTEM_TABLES: [&str; 2] = ["mysql_system_tables.sql", "mariadb_system_tables.sql"];

static MARIADB: Unpacked = Unpacked {
    suite: Suite::Bookworm,
    package: "mariadb-server-core",
    parts: &[],
    programs: &["usr/sbin/mariadbd"],
};

static MYSQL: Unpacked = Unpacked {
    suite: Suite::Unstable,
    package: "mysql-server-core",
    parts: &[],
    programs: &["usr/sbin/mysqld"],
};
const MYSQLD: &str = "sbin/mysqld";

/// A MariaDB or MySQL server.
#[derive(Debug)]
pub(super) struct MySql {
    name: &'static str,
    variable: &'static str,
    need: Necessity,
    port: u16,
    brand: Brand,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Brand {
    MariaDb,
    /// MySQL is always unpacked, because a system can't have both it and MariaDB installed.
    MySql,
}

pub(super) static MARIA: MySql = MySql {
    name: "mariadb",
    variable: "PILLARBOX_TEST_MARIADB_URL",
    need: Necessity::Must,
    port: 15_306,
    brand: Brand::MariaDb,
};

pub(super) static NINE: MySql = MySql {
    name: "mysql",
    variable: "PILLARBOX_TEST_MYSQL_URL",
    need: Necessity::May,
    port: 15_309,
    brand: Brand::MySql,
};

impl Server for MySql {
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
        // A graceful stop would write its buffers, which nobody needs.
        "KILL"
    }

    fn find(&self) -> Option<PathBuf> {
        let unpacked = || self.unpacked().find().map(|home| home.join("usr"));
        match self.brand {
            Brand::MariaDb => installed().or_else(unpacked),
            Brand::MySql => unpacked(),
        }
    }

    fn install(&self) -> Result<PathBuf, String> {
        let check = |root: &Path| {
            debian::try_program(root, self.unpacked().programs[0], &["--no-defaults", "--version"])
        };
        let told = |why| format!("{why}\n    set {} to use one of yours{}", self.variable, self.advice());
        self.unpacked().get(check).map(|home| home.join("usr")).map_err(told)
    }

    fn preparation(&self, site: &Site) -> Vec<Command> {
        let mut accounts = Command::new("sh");
        accounts.args(["-c", "printf %s \"$1\" > \"$0\""]).arg(accounts_of(site)).arg(ACCOUNTS);
        let mut fill = match self.brand {
            Brand::MariaDb => {
                let mut bootstrap = Command::new("sh");
                bootstrap.args(["-c", BOOTSTRAP, self.name]).arg(share_of(&site.home)).arg(tables_of(site));
                let daemon = self.daemon(site);
                bootstrap.arg(daemon.get_program()).args(daemon.get_args());
                bootstrap.args(["--bootstrap", "--log-warnings=0", "--max-allowed-packet=8M"]);
                bootstrap
            }
            Brand::MySql => {
                let mut initialize = self.daemon(site);
                initialize.arg("--initialize-insecure");
                initialize
            }
        };
        // The server's user may have no access to the caller's temporary folder.
        fill.arg(format!("--datadir={}", tables_of(site).display())).arg(temporary(site));
        vec![accounts, fill]
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut daemon = self.daemon(site);
        let folder = site.data.display();
        daemon.arg(format!("--datadir={}", tables_of(site).display())).arg(temporary(site));
        daemon.arg(format!("--init-file={}", accounts_of(site).display()));
        daemon.args(["--bind-address=127.0.0.1", &format!("--port={port}")]);
        daemon.arg(format!("--socket={folder}/socket")).arg(format!("--pid-file={folder}/pid"));
        if self.brand == Brand::MySql {
            // Disables a second port, and a folder that only an installed server has.
            daemon.args(["--mysqlx=OFF", "--secure-file-priv="]);
        }
        daemon.args(SETTINGS.iter().map(|(name, value)| setting(name, value)));
        daemon
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        says_ready(&site.read_log(), port) && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("mysql://pillarbox:pillarbox@127.0.0.1:{port}/pillarbox")
    }
}

impl MySql {
    /// The program with the options to find its own files, and without the configuration of the system's
    /// server.
    fn daemon(&self, site: &Site) -> Command {
        let (program, share) = match self.brand {
            Brand::MariaDb => (mariadbd_of(&site.home), share_of(&site.home)),
            Brand::MySql => (site.home.join(MYSQLD), site.home.join("share/mysql")),
        };
        let mut daemon = Command::new(program);
        daemon.arg("--no-defaults").arg(format!("--basedir={}", site.home.display()));
        daemon.arg(format!("--lc-messages-dir={}", share.display()));
        daemon.arg(format!("--character-sets-dir={}", share.join("charsets").display()));
        let plugins = site.home.join("lib/mysql/plugin");
        if plugins.is_dir() {
            daemon.arg(format!("--plugin-dir={}", plugins.display()));
        }
        daemon
    }

    fn unpacked(&self) -> &'static Unpacked {
        match self.brand {
            Brand::MariaDb => &MARIADB,
            Brand::MySql => &MYSQL,
        }
    }

    /// Advice for a user if the software can't be fetched.
    fn advice(&self) -> &'static str {
        match self.brand {
            Brand::MariaDb => ", or install MariaDB",
            Brand::MySql => "",
        }
    }
}

/// An installed MariaDB with every part that we use.
fn installed() -> Option<PathBuf> {
    let homes = HOMES.iter().map(|(home, daemon)| (Path::new(home), daemon));
    let mut there = homes.filter(|(home, daemon)| home.join(daemon).is_file() && share_in(home).is_some());
    there.next().map(|(home, _)| home.to_owned())
}

fn mariadbd_of(home: &Path) -> PathBuf {
    let mut places = HOMES.iter().map(|(_, daemon)| home.join(daemon));
    places.find(|daemon| daemon.is_file()).unwrap_or_else(|| home.join(HOMES[0].1))
}

fn share_in(home: &Path) -> Option<PathBuf> {
    let has_tables = |share: &PathBuf| SYSTEM_TABLES.iter().any(|file| share.join(file).is_file());
    SHARES.iter().map(|share| home.join(share)).find(has_tables)
}

fn share_of(home: &Path) -> PathBuf {
    share_in(home).unwrap_or_else(|| home.join(SHARES[0]))
}

fn tables_of(site: &Site) -> PathBuf {
    site.data.join("tables")
}

fn temporary(site: &Site) -> String {
    format!("--tmpdir={}", site.data.display())
}

fn accounts_of(site: &Site) -> PathBuf {
    site.data.join("accounts.sql")
}

fn setting(name: &str, value: &str) -> String {
    let name = name.replace('_', "-");
    if value == "ON" { format!("--{name}") } else { format!("--{name}={value}") }
}

/// Whether the log says that the server is ready on this port. Both brands log it after creating the
/// accounts.
fn says_ready(log: &str, port: u16) -> bool {
    log.split_once("ready for connections").is_some_and(|(_, rest)| rest.contains(&format!("port: {port} ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_still_starts_is_not_ready() {
        let starting = "InnoDB: log sequence number 47391\n";
        let maria =
            "mariadbd: ready for connections.\nVersion: '10.11.14'  socket: 's'  port: 15306  Debian 12\n";
        let mysql = "mysqld: ready for connections. Version: '9.7.4'  socket: 's'  port: 15309  (Debian).\n";
        assert!(!says_ready(starting, 15_306));
        assert!(says_ready(&format!("{starting}{maria}"), 15_306));
        assert!(says_ready(mysql, 15_309));
        assert!(!says_ready(mysql, 1_530));
    }

    #[test]
    fn a_setting_is_an_option() {
        assert_eq!(setting("max_connections", "300"), "--max-connections=300");
        assert_eq!(setting("skip_log_bin", "ON"), "--skip-log-bin");
    }

    #[test]
    fn no_server_shares_the_files_of_another() {
        let site = Site { home: "/usr".into(), data: "/tmp/a/data".into(), log: "/tmp/a/log".into() };
        for server in [&MARIA, &NINE] {
            let command = server.command(&site, 15_306);
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            for option in ["--datadir=", "--socket=", "--pid-file=", "--init-file="] {
                let start = format!("{option}/tmp/a/data/");
                assert!(words.iter().any(|word| word.starts_with(&start)), "{option} {words:?}");
            }
            assert!(words.iter().any(|word| word == "--no-defaults"), "{words:?}");
        }
    }

    #[test]
    fn docker_gets_the_same_settings_and_ports() {
        let compose = crate::compose();
        for server in [&MARIA, &NINE] {
            assert!(compose.contains(&format!("  {}:", server.name)), "{}", server.name);
            assert!(compose.contains(&format!("127.0.0.1:{}:3306", server.port)), "{}", server.name);
            assert!(compose.contains(&server.url(server.port)), "{}", server.name);
        }
        for (name, value) in SETTINGS {
            assert!(compose.contains(&setting(name, value)), "{name}");
        }
    }
}
