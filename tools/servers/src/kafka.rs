//! Kafka, as one node that is both broker and controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Necessity, Server, Site, apt, cache, fetch, port};
use crate::process;

const NAME: &str = "kafka";
/// The variable that names the folder of the libraries for tests that start their own servers.
const LIBRARIES: &str = "PILLARBOX_TEST_KAFKA_LIBS";
const VERSION: &str = "4.1.0";
const FETCHED: Duration = Duration::from_secs(10 * 60);
/// Timeouts of a registry in milliseconds, with the option names of Maven before 3.9 and since.
const BOUNDS: [&str; 4] = [
    "-Dmaven.wagon.rto=20000",
    "-Dmaven.wagon.http.retryHandler.count=2",
    "-Daether.connector.connectTimeout=10000",
    "-Daether.connector.requestTimeout=20000",
];
/// The full name of the plugin. Maven would look up a short name first, which fails without a reason.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
const POM: &str = include_str!("kafka/pom.xml");
/// The start script, which tests of sinks use too, to restart their own server.
const RUN: &str = include_str!("kafka/run.sh");

#[derive(Debug)]
pub(super) struct Kafka;

impl Server for Kafka {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_KAFKA_URL"
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        15_390
    }

    /// One port for clients and one for the controller.
    fn ports(&self) -> u16 {
        2
    }

    fn stop_signal(&self) -> &'static str {
        "KILL"
    }

    fn find(&self) -> Option<PathBuf> {
        cache::cached(&folder()).filter(|_| process::is_there("java"))
    }

    fn install(&self) -> Result<PathBuf, String> {
        let told = |why| format!("{why}\n    or set {}", self.variable());
        for (program, package) in [("mvn", "maven"), ("java", "default-jre-headless")] {
            if !process::is_there(program) {
                apt::install(package).map_err(told)?;
            }
        }
        cache::keep(&folder(), fetch_libraries).map_err(told)
    }

    fn preparation(&self, _: &Site) -> Vec<Command> {
        Vec::new()
    }

    fn command(&self, site: &Site, port: u16) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, NAME]).arg(libraries(&site.home)).arg(&site.data).arg(port.to_string());
        shell
    }

    /// The libraries behind the shell script that is started: the servers' user must be able to read these.
    fn program(&self, site: &Site) -> PathBuf {
        libraries(&site.home)
    }

    fn is_ready(&self, site: &Site, port: u16) -> bool {
        site.read_log().contains("Kafka Server started") && port::takes_connections(port)
    }

    fn url(&self, port: u16) -> String {
        format!("127.0.0.1:{port}")
    }

    fn extras(&self, home: &Path) -> Vec<(&'static str, String)> {
        vec![(LIBRARIES, libraries(home).display().to_string())]
    }
}

fn fetch_libraries(part: &Path) -> Result<PathBuf, String> {
    let pom = part.join("pom.xml");
    fs::write(&pom, POM).map_err(|error| format!("{}: {error}", pom.display()))?;
    let home = part.join("home");
    let mut copy = Command::new("mvn");
    copy.args(["-B", "-q", "-Dstyle.color=never", COPY]);
    copy.arg(format!("-DoutputDirectory={}", libraries(&home).display()));
    // Maven's own downloads stay below `part`, which is deleted afterwards.
    copy.arg(format!("-Dmaven.repo.local={}", part.join("repository").display())).args(BOUNDS);
    copy.env("MAVEN_OPTS", "-XX:-UsePerfData");
    fetch::run(&mut copy, part, FETCHED)?;
    Ok(home)
}

fn libraries(home: &Path) -> PathBuf {
    home.join("libs")
}

fn folder() -> String {
    format!("kafka-{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_and_what_is_kept_have_the_same_version() {
        assert_eq!(POM.matches(&format!("<version>{VERSION}</version>")).count(), 2);
    }

    #[test]
    fn docker_gets_the_same_version_and_port() {
        let compose = crate::compose();
        assert!(compose.contains("  kafka:"));
        assert!(compose.contains(&format!("image: apache/kafka:{VERSION}")));
        assert!(compose.contains(&format!("127.0.0.1:{0}:{0}", Kafka.preferred_port())));
    }
}
