//! NATS with JetStream.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked};
use super::{Necessity, Server, Site, port};

/// The variable that names the program for tests that start their own servers.
const PROGRAM: &str = "PILLARBOX_TEST_NATS_SERVER";
/// Where Debian, archives and Homebrew install the program.
const PLACES: [(&str, &str); 4] = [
    ("/usr", "sbin/nats-server"),
    ("/usr", "bin/nats-server"),
    ("/usr/local", "bin/nats-server"),
    ("/opt/homebrew", "bin/nats-server"),
];

static UNPACKED: Unpacked = Unpacked {
    suite: Suite::Bookworm,
    package: "nats-server",
    parts: &[],
    programs: &["usr/sbin/nats-server"],
};

#[derive(Debug)]
pub(super) struct Nats;

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_NATS_URL"
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        15_422
    }

    fn stop_signal(&self) -> &'static str {
        "KILL"
    }

    fn find(&self) -> Option<PathBuf> {
        let mut there = PLACES.iter().filter(|(home, daemon)| Path::new(home).join(daemon).is_file());
        let installed = there.next().map(|(home, _)| home.into());
        installed.or_else(|| UNPACKED.find().map(|home| home.join("usr")))
    }

    fn install(&self) -> Result<PathBuf, String> {
        let told = |why| {
            format!(
                "{why}
    install nats-server, or set {}",
                self.variable()
            )
        };
        let check = |root: &Path| debian::try_program(root, UNPACKED.programs[0], &["--version"]);
        UNPACKED.get(check).map(|home| home.join("usr")).map_err(told)
    }

    fn preparation(&self, _: &Site) -> Vec<Command> {
        Vec::new()
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut daemon = Command::new(daemon(&site.home));
        daemon.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
        daemon.args(["--jetstream", "--store_dir"]).arg(&site.data);
        daemon
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        site.read_log().contains("Server is ready") && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        vec![(PROGRAM, daemon(home).display().to_string())]
    }
}

fn daemon(home: &Path) -> PathBuf {
    let places = PLACES.iter().filter(|(own, _)| home == Path::new(own)).map(|(_, daemon)| home.join(daemon));
    places.into_iter().find(|daemon| daemon.is_file()).unwrap_or_else(|| home.join(PLACES[0].1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_gets_the_same_port_and_has_jetstream_too() {
        let compose = crate::compose();
        assert!(compose.contains("  nats:"));
        assert!(compose.contains("--jetstream"));
        assert!(compose.contains(&format!("127.0.0.1:{}:4222", Nats.preferred_port())));
    }
}
