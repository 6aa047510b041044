//! The real servers that tests and benchmarks talk to: throw-away instances, brought up and taken down.
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
mod ground;
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

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use action::{Action, Chosen, run};
pub use apt::install;
pub use fleet::{Fleet, Pending};
pub use guard::{GUARD, run as guard};

/// Whether a test run fails for lack of a server, or only names it as one that could not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Necessity {
    /// It fails.
    Must,
    /// It names it.
    May,
}

/// Where one instance finds its software and keeps its data.
#[derive(Debug)]
pub struct Site {
    /// The folder of the software, with `bin` in it.
    home: PathBuf,
    /// Belongs to the user that the server runs as; empty at first.
    data: PathBuf,
    /// What the server prints.
    log: PathBuf,
}

impl Site {
    /// What the server has printed so far.
    fn read_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

/// A kind of server. Another one is a file that implements this and a line in [`ALL`].
pub trait Server: Debug + Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// The environment variable that tells the tests its URL.
    fn variable(&self) -> &'static str;

    /// Whether a test run can do without it.
    fn need(&self) -> Necessity;

    /// The first port to try, below those that the system gives to clients.
    fn preferred_port(&self) -> u16;

    /// How many ports in a row it takes.
    fn ports(&self) -> u16 {
        1
    }

    /// The signal that ends it soonest without leaving anything behind.
    fn stop_signal(&self) -> &'static str;

    /// Looks for the software on this machine; it counts only if all is there that is used of it.
    fn find(&self) -> Option<PathBuf>;

    /// Gets the software, or says what to install.
    fn install(&self) -> Result<PathBuf, String>;

    /// The commands that fill the data folder, each run as the servers' user.
    fn preparation(&self, site: &Site) -> Vec<Command>;

    /// The server itself, staying in the foreground; the data folder is among its arguments.
    fn command(&self, site: &Site, port: u16) -> Command;

    /// The file that the servers' user must be able to read.
    fn program(&self, site: &Site) -> PathBuf {
        self.command(site, self.preferred_port()).get_program().into()
    }

    /// Tells whether this very instance, and no other on the port, takes connections.
    fn is_ready(&self, site: &Site, port: u16) -> bool;

    /// How clients reach it.
    fn url(&self, port: u16) -> String;

    /// More that the tests are told by environment variables, whoever runs the server.
    fn extras(&self, _home: &Path) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Every server there is.
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

/// What describes the same servers for Docker.
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
