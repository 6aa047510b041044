//! Builds and runs the benchmarks.

use std::path::Path;

use crate::process;
use pillarbox_servers::{self as servers, Fleet};

/// The measured servers: the benchmark program's name for each, and ours.
const MEASURED: [(&str, &str); 5] = [
    ("postgres", "postgres-15"),
    ("mariadb", "mariadb"),
    ("mongodb", "mongodb"),
    ("nats", "nats"),
    (KAFKA, KAFKA),
];
/// The server for measurements of the relay.
const POSTGRES: &str = "postgres-15";
/// The comparison with peers, which builds software of others: it runs only when it is named.
const PEERS: &str = "peers";
/// Tells the comparison that its server was started for it, so that it may change the settings.
const OWN_SERVER: &str = "PILLARBOX_BENCH_OWN_SERVER";
/// Kafka's client is built only if Kafka is measured.
const KAFKA: &str = "kafka";

/// Runs the benchmark program while its servers run. Returns whether it succeeded.
pub(crate) fn run(root: &Path, arguments: &[String]) -> bool {
    let measured = measured(arguments);
    let mut fleet = match bring_up(root, &measured) {
        Ok(fleet) => fleet,
        Err(why) => {
            eprintln!("bench: {why}");
            return false;
        }
    };
    // The benchmarks also measure the memory of the `pillarbox` program.
    let mut program = process::cargo(root);
    program.args(["build", "--release", "--package", "pillarbox-cli"]);
    let mut command = process::cargo(root);
    command.args(["run", "--release", "--package", "pillarbox-bench", "--bin", "pillarbox-bench"]);
    if measured.contains(&KAFKA) {
        command.args(["--features", KAFKA]);
    }
    command.arg("--").args(arguments);
    let of_peers = only(arguments).is_some_and(|only| only == PEERS);
    let of_relay = measured.contains(&POSTGRES) && !of_peers;
    let built = if of_relay { process::run(&mut program) } else { Ok(()) };
    if of_peers && fleet.exports().any(|(name, _)| name == "PILLARBOX_TEST_POSTGRES_URL") {
        command.env(OWN_SERVER, "1");
    }
    let ran = built.and_then(|()| process::run(command.envs(fleet.exports())));
    let ended = fleet.end();
    ran.and(ended).map_err(|why| eprintln!("bench: {why}")).is_ok()
}

/// The servers that a run with these arguments needs.
fn measured(arguments: &[String]) -> Vec<&'static str> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Vec::new();
    }
    let only = only(arguments);
    if only.is_some_and(|only| only == PEERS) {
        return vec![POSTGRES];
    }
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    MEASURED.iter().filter(|(name, _)| is_wanted(name)).map(|(_, server)| *server).collect()
}

/// The first word, which names what is measured.
fn only(arguments: &[String]) -> Option<&String> {
    arguments.iter().find(|argument| !argument.starts_with('-'))
}

/// Starts the servers. Those that can't start are reported and not measured.
fn bring_up(root: &Path, names: &[&str]) -> Result<Fleet, String> {
    let measured: Vec<_> = names.iter().filter_map(|name| servers::find(name).ok()).collect();
    Fleet::bring_up(root, &measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Vec<&'static str> {
        measured(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn everything_that_is_measured_is_a_server() {
        assert!(MEASURED.iter().all(|(_, name)| servers::find(name).is_ok()));
    }

    #[test]
    fn only_the_servers_that_are_measured_are_started() {
        assert_eq!(asked(""), ["postgres-15", "mariadb", "mongodb", "nats", "kafka"]);
        assert_eq!(asked("kafka --quick"), ["kafka"]);
        assert_eq!(asked("--quick"), asked(""));
        assert_eq!(asked("mariadb drain --quick"), ["mariadb"]);
        assert!(asked("sqlite").is_empty());
        assert_eq!(asked("peers river --quick"), ["postgres-15"]);
    }

    #[test]
    fn no_server_is_started_for_a_page_of_help() {
        assert!(asked("postgres --help").is_empty());
    }
}
