//! MariaDB and MySQL.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Need, Server, Site, apt, cache, fetch, port, sid};
use crate::process;

const ACCOUNTS: &str = include_str!("mysql/accounts.sql");

/// A commit is with the system when it is answered: tests kill servers, and no test cuts the power.
const SETTINGS: [(&str, &str); 7] = [
    ("innodb_flush_log_at_trx_commit", "2"),
    ("innodb_doublewrite", "0"),
    ("innodb_buffer_pool_size", "256M"),
    ("max_connections", "300"),
    ("character_set_server", "utf8mb4"),
    ("skip_log_bin", "ON"),
    ("skip_name_resolve", "ON"),
];

/// Folders that MariaDB may be installed in, and the daemon's place in them, by the habits of systems.
const HOMES: [(&str, &str); 5] = [
    ("/usr", "sbin/mariadbd"),
    ("/usr", "libexec/mariadbd"),
    ("/usr", "bin/mariadbd"),
    ("/opt/homebrew/opt/mariadb", "bin/mariadbd"),
    ("/usr/local/opt/mariadb", "bin/mariadbd"),
];
const INSTALL: &str = "bin/mariadb-install-db";
/// Without the package `mariadb-server`, which starts a server of the system.
const MARIADB: &str = "mariadb-server-core";

const MYSQL: &str = "mysql-server-core";
const MYSQLD: &str = "usr/sbin/mysqld";

/// One of the two.
#[derive(Debug)]
pub(super) struct MySql {
    name: &'static str,
    variable: &'static str,
    need: Need,
    port: u16,
    brand: Brand,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Brand {
    MariaDb,
    /// Unpacked, since it and MariaDB do not go together in one system.
    MySql,
}

pub(super) static MARIA: MySql = MySql {
    name: "mariadb",
    variable: "PILLARBOX_TEST_MARIADB_URL",
    need: Need::Must,
    port: 15_306,
    brand: Brand::MariaDb,
};

pub(super) static NINE: MySql = MySql {
    name: "mysql",
    variable: "PILLARBOX_TEST_MYSQL_URL",
    need: Need::May,
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

    fn need(&self) -> Need {
        self.need
    }

    fn preferred_port(&self) -> u16 {
        self.port
    }

    fn user(&self) -> &'static str {
        "mysql"
    }

    fn stop_signal(&self) -> &'static str {
        // It would save its buffers otherwise, of which nothing is used again.
        "KILL"
    }

    fn find(&self) -> Option<PathBuf> {
        match self.brand {
            Brand::MariaDb => {
                let homes = HOMES.iter().map(|(home, daemon)| (Path::new(home), daemon));
                let mut installed = homes
                    .filter(|(home, daemon)| home.join(daemon).is_file() && home.join(INSTALL).is_file());
                installed.next().map(|(home, _)| home.to_owned())
            }
            Brand::MySql => cache::cached(MYSQL),
        }
    }

    fn install(&self) -> Result<PathBuf, String> {
        match self.brand {
            Brand::MariaDb => {
                apt::install(MARIADB).map_err(|why| format!("{why}, or set {}", self.variable))?;
                self.find().ok_or_else(|| format!("`{MARIADB}` is installed, but there is no mariadbd"))
            }
            Brand::MySql => cache::keep(MYSQL, unpack)
                .map_err(|why| format!("{why}; set {} to use one of yours", self.variable)),
        }
    }

    fn preparation(&self, site: &Site) -> Vec<Command> {
        let mut accounts = Command::new("sh");
        accounts.args(["-c", "printf %s \"$1\" > \"$0\""]).arg(accounts_of(site)).arg(ACCOUNTS);
        let mut fill = match self.brand {
            Brand::MariaDb => {
                let mut install = Command::new(site.home.join(INSTALL));
                install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                install.arg(format!("--basedir={}", site.home.display()));
                install
            }
            Brand::MySql => {
                let mut initialize = self.daemon(site);
                initialize.arg("--initialize-insecure");
                initialize
            }
        };
        // The temporary folder of whoever starts it may be closed to the server's user.
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
            // A second port, and a folder that only an installed server has.
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
    /// The program with what it needs to find its own files, without the settings of the system's server.
    fn daemon(&self, site: &Site) -> Command {
        match self.brand {
            Brand::MariaDb => {
                let places = HOMES.iter().filter(|(home, _)| site.home == Path::new(home));
                let there = places.map(|(_, daemon)| site.home.join(daemon)).find(|daemon| daemon.is_file());
                let mut daemon = Command::new(there.unwrap_or_else(|| site.home.join(HOMES[0].1)));
                daemon.arg("--no-defaults").arg(format!("--basedir={}", site.home.display()));
                daemon
            }
            Brand::MySql => {
                let mut daemon = sid::command(&site.home, MYSQLD);
                let own = site.home.join("usr");
                daemon.arg("--no-defaults").arg(format!("--basedir={}", own.display()));
                daemon.arg(format!("--lc-messages-dir={}", own.join("share/mysql").display()));
                daemon.arg(format!("--plugin-dir={}", own.join("lib/mysql/plugin").display()));
                daemon
            }
        }
    }
}

/// Only what runs is kept.
fn unpack(part: &Path) -> Result<PathBuf, String> {
    let home = sid::unpack(MYSQL, &[MYSQL], part)?;
    fetch::run(sid::command(&home, MYSQLD).args(["--no-defaults", "--version"]), part, process::SHORT)?;
    Ok(home)
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

/// Both say so in the log, with the port, once the accounts are there.
fn says_ready(log: &str, port: u16) -> bool {
    log.split_once("ready for connections").is_some_and(|(_, rest)| rest.contains(&format!("port: {port} ")))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let compose = fs::read_to_string(crate::root().join("compose.yaml")).unwrap();
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
