//! RabbitMQ, with an epmd of its own that ends with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Need, Server, Site, apt, port};
use crate::process;

const NAME: &str = "rabbitmq";
/// Tells tests that start servers of their own which folder the scripts are in.
const BIN: &str = "PILLARBOX_TEST_RABBITMQ_BIN";
const PACKAGE: &str = "rabbitmq-server";
const SCRIPT: &str = "bin/rabbitmq-server";
/// Folders with the scripts themselves: those among the system's programs insist on the system's data.
const HOMES: [&str; 3] =
    ["/usr/lib/rabbitmq", "/opt/homebrew/opt/rabbitmq/libexec", "/usr/local/opt/rabbitmq/libexec"];
/// Also started by tests of sinks, which restart a server of their own.
const RUN: &str = include_str!("rabbitmq/run.sh");

#[derive(Debug)]
pub(super) struct RabbitMq;

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_RABBITMQ_URL"
    }

    fn need(&self) -> Need {
        Need::May
    }

    /// The two ports after it are taken too.
    fn preferred_port(&self) -> u16 {
        15_672
    }

    fn user(&self) -> &'static str {
        "rabbitmq"
    }

    fn stop_signal(&self) -> &'static str {
        "TERM"
    }

    fn find(&self) -> Option<PathBuf> {
        HOMES.iter().map(PathBuf::from).find(|home| home.join(SCRIPT).is_file())
    }

    fn install(&self) -> Result<PathBuf, String> {
        if !process::is_there("setpriv") {
            return Err("its two processes are held together by `setpriv` of util-linux".into());
        }
        apt::install(PACKAGE).map_err(|why| format!("{why}, or set {}", self.variable()))?;
        self.find().ok_or_else(|| format!("`{PACKAGE}` is installed, but there is no {SCRIPT}"))
    }

    fn preparation(&self, _: &Site) -> Vec<Command> {
        Vec::new()
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, NAME]).arg(site.home.join("bin")).arg(&site.data).arg(port.to_string());
        shell
    }

    fn program(&self, site: &Site) -> PathBuf {
        site.home.join(SCRIPT)
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        site.read_log().contains("completed with") && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        vec![(BIN, home.join("bin").display().to_string())]
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn docker_gets_the_same_port() {
        let compose = fs::read_to_string(crate::root().join("compose.yaml")).unwrap();
        assert!(compose.contains("  rabbitmq:"));
        assert!(compose.contains(&format!("127.0.0.1:{}:5672", RabbitMq.preferred_port())));
    }
}
