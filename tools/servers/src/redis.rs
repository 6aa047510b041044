//! Redis.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked};
use super::{Necessity, Server, Site, port};

/// The variable that names the program for tests that start their own servers.
const PROGRAM: &str = "PILLARBOX_TEST_REDIS_SERVER";
const HOMES: [&str; 4] = ["/usr", "/usr/local", "/opt/homebrew/opt/redis", "/usr/local/opt/redis"];
const DAEMON: &str = "bin/redis-server";

/// Debian's `redis-server` is a link to a program of another package.
static UNPACKED: Unpacked = Unpacked {
    suite: Suite::Bookworm,
    package: "redis-server",
    parts: &["redis-tools"],
    programs: &["usr/bin/redis-server"],
};

/// A write is in the append-only file when it is answered, and is read again after a restart.
const SETTINGS: [(&str, &str); 3] = [("appendonly", "yes"), ("save", ""), ("maxmemory-policy", "noeviction")];

#[derive(Debug)]
pub(super) struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_REDIS_URL"
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        15_379
    }

    fn stop_signal(&self) -> &'static str {
        "KILL"
    }

    fn find(&self) -> Option<PathBuf> {
        let installed = HOMES.iter().map(PathBuf::from).find(|home| home.join(DAEMON).is_file());
        installed.or_else(|| UNPACKED.find().map(|home| home.join("usr")))
    }

    fn install(&self) -> Result<PathBuf, String> {
        let told = |why| {
            format!(
                "{why}
    install redis, or set {}",
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
        let mut daemon = Command::new(site.home.join(DAEMON));
        daemon.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(&site.data);
        // We recognise an instance by the folder in its arguments, which Redis would overwrite.
        daemon.args(["--set-proc-title", "no"]);
        SETTINGS.iter().for_each(|(name, value)| {
            daemon.args([&format!("--{name}"), *value]);
        });
        daemon
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        site.read_log().contains("Ready to accept connections") && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("redis://127.0.0.1:{port}/0")
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        vec![(PROGRAM, home.join(DAEMON).display().to_string())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_arguments_stay_to_be_known_by() {
        let site = Site { home: "/usr".into(), data: "/tmp/a/data".into(), log: "/tmp/a/log".into() };
        let command = Redis.command(&site, 15_379);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.windows(2).any(|pair| pair == ["--set-proc-title", "no"]), "{words:?}");
    }

    #[test]
    fn docker_gets_the_same_settings_and_port() {
        let compose = crate::compose();
        assert!(compose.contains("  redis:"));
        assert!(compose.contains(&format!("127.0.0.1:{}:6379", Redis.preferred_port())));
        assert!(SETTINGS.iter().all(|(name, _)| compose.contains(&format!("--{name}"))));
    }
}
