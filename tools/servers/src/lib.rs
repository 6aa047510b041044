//! Starts and stops throw-away instances of the real servers that tests and benchmarks use.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is the part of `cargo xtask` that tells of servers"
)]

mod action;
mod apt;
mod cache;
mod debian;
pub mod disk;
mod exports;
mod ferretdb;
mod fetch;
mod fleet;
mod golang;
mod guard;
mod instance;
mod kafka;
mod lock;
mod mongodb;
mod mysql;
mod nats;
mod port;
mod postgres;
pub mod process;
mod rabbitmq;
mod redis;
mod runner;
mod start;
mod tool;
mod wire;
mod worker;
mod workspace;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use action::{Action, Chosen, run};
pub use apt::install;
pub use fleet::{Fleet, Pending};
pub use guard::{GUARD, run as guard};

/// What a test run does if a server can't start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Necessity {
    /// The run fails.
    Must,
    /// The run reports the server as one that could not run, and continues.
    May,
}

/// The folders of one instance.
#[derive(Debug)]
pub struct Site {
    /// The folder of the software, which contains `bin`.
    home: PathBuf,
    /// The data folder. It is empty at first and belongs to the user that the server runs as.
    data: PathBuf,
    /// The file of the server's output.
    log: PathBuf,
}

impl Site {
    /// The output of the server so far.
    fn read_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

/// A kind of server. To add one, implement this in a new file and add a line to [`ALL`].
pub trait Server: Debug + Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The environment variable that contains the URL for tests.
    fn variable(&self) -> &'static str;

    /// Whether a test run needs the server.
    fn need(&self) -> Necessity;

    /// The first port to try. It is below the ephemeral ports of the system.
    fn preferred_port(&self) -> u16;

    /// The number of consecutive ports that the server uses.
    fn ports(&self) -> u16 {
        1
    }

    /// The signal that stops the server fastest without leaving anything behind.
    fn stop_signal(&self) -> &'static str;

    /// Finds the software on this machine, if every part that we use is installed.
    fn find(&self) -> Option<PathBuf>;

    /// Fetches the software. The error says what to install.
    fn install(&self) -> Result<PathBuf, String>;

    /// The commands that initialise the data folder. Each runs as the servers' user.
    fn preparation(&self, site: &Site) -> Vec<Command>;

    /// The command of the server in the foreground. Its arguments contain the data folder.
    fn command(&self, site: &Site, port: u16) -> Command;

    /// A file that the servers' user must be able to read.
    fn program(&self, site: &Site) -> PathBuf {
        self.command(site, self.preferred_port()).get_program().into()
    }

    /// Whether this instance, and not another server on the port, accepts connections.
    fn is_ready(&self, site: &Site, port: u16) -> bool;

    /// The URL for clients.
    fn url(&self, port: u16) -> String;

    /// Further environment variables for tests, also if someone else runs the server.
    fn extras(&self, _home: &Path) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// All servers.
pub static ALL: [&dyn Server; 11] = [
    &postgres::FIFTEEN,
    &postgres::EIGHTEEN,
    &mysql::MARIA,
    &mysql::NINE,
    &mongodb::ONE,
    &mongodb::THREE,
    &ferretdb::FerretDb,
    &redis::Redis,
    &nats::Nats,
    &rabbitmq::RabbitMq,
    &kafka::Kafka,
];

/// Finds a server by its name.
pub fn find(name: &str) -> Result<&'static dyn Server, String> {
    let named = ALL.into_iter().find(|server| server.name() == name);
    named.ok_or_else(|| format!("unknown server `{name}`: one of {}", names()))
}

/// The names of all servers.
pub fn names() -> String {
    ALL.map(Server::name).join(", ")
}

/// The Compose file that describes the same servers.
#[cfg(test)]
fn compose() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compose.yaml");
    fs::read_to_string(path).expect("compose.yaml")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn servers_share_no_name_variable_or_port() {
        let names: BTreeSet<_> = ALL.iter().map(|server| server.name()).collect();
        let variables: BTreeSet<_> = ALL.iter().map(|server| server.variable()).collect();
        let ports: BTreeSet<_> = ALL.iter().map(|server| server.preferred_port()).collect();
        assert_eq!([names.len(), variables.len(), ports.len()], [ALL.len(); 3]);
    }

    #[test]
    fn only_what_any_machine_can_have_must_be_there() {
        let musts = ALL.iter().filter(|server| server.need() == Necessity::Must);
        assert_eq!(musts.map(|server| server.name()).collect::<Vec<_>>(), ["postgres-15", "mariadb"]);
    }

    #[test]
    fn an_unknown_server_is_named_with_those_there_are() {
        assert_eq!(find("postgres-15").unwrap().name(), "postgres-15");
        let why = "unknown server `oracle`: one of postgres-15, postgres-18, mariadb, mysql, mongodb, \
                   mongodb-3, ferretdb, redis, nats, rabbitmq, kafka";
        assert_eq!(find("oracle").unwrap_err(), why);
    }
}
