//! RabbitMQ, with its own epmd, which ends with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::debian::{self, Suite, Unpacked, write_script};
use super::{Necessity, Server, Site, port};
use crate::process;

const NAME: &str = "rabbitmq";
/// The variable that names the folder of the scripts for tests that start their own servers.
const BIN: &str = "PILLARBOX_TEST_RABBITMQ_BIN";
const SCRIPT: &str = "bin/rabbitmq-server";
/// Folders of the original scripts. The scripts on the PATH always use the system's data folder.
const HOMES: [&str; 3] =
    ["/usr/lib/rabbitmq", "/opt/homebrew/opt/rabbitmq/libexec", "/usr/local/opt/rabbitmq/libexec"];
/// The start script, which tests of sinks use too, to restart their own server.
const RUN: &str = include_str!("rabbitmq/run.sh");

static UNPACKED: Unpacked = Unpacked {
    suite: Suite::Bookworm,
    package: "rabbitmq-server",
    parts: &["erlang-"],
    programs: &[
        "usr/lib/erlang/erts-13.1.5/bin/beam.smp",
        "usr/lib/erlang/erts-13.1.5/bin/epmd",
        "usr/lib/erlang/erts-13.1.5/bin/erl_child_setup",
        "usr/lib/erlang/erts-13.1.5/bin/erlexec",
        "usr/lib/erlang/erts-13.1.5/bin/inet_gethost",
    ],
};
const UNPACKED_HOME: &str = "usr/lib/rabbitmq";
/// Replaces Erlang's script, which works only in the folder that it was built for.
const ERL: &str = r#"#!/bin/sh
ROOTDIR=${0%/*}/../../erlang BINDIR=${0%/*}/../../erlang/erts-13.1.5/bin EMU=beam PROGNAME=erl
export ROOTDIR BINDIR EMU PROGNAME
exec "$BINDIR/erlexec" "$@"
"#;
const EPMD: &str = r#"#!/bin/sh
exec "${0%/*}/../../erlang/erts-13.1.5/bin/epmd" "$@"
"#;

#[derive(Debug)]
pub(super) struct RabbitMq;

impl Server for RabbitMq {
    fn name(&self) -> &'static str {
        NAME
    }

    fn variable(&self) -> &'static str {
        "PILLARBOX_TEST_RABBITMQ_URL"
    }

    fn need(&self) -> Necessity {
        Necessity::May
    }

    fn preferred_port(&self) -> u16 {
        15_672
    }

    /// One port for clients, one for epmd and one for other nodes.
    fn ports(&self) -> u16 {
        3
    }

    fn stop_signal(&self) -> &'static str {
        "TERM"
    }

    fn find(&self) -> Option<PathBuf> {
        let is_complete = |home: &PathBuf| {
            home.join(SCRIPT).is_file() && ["erl", "epmd"].iter().all(|name| process::is_there(name))
        };
        let installed = HOMES.iter().map(PathBuf::from).find(is_complete);
        installed.or_else(|| UNPACKED.find().map(|root| root.join(UNPACKED_HOME)))
    }

    fn install(&self) -> Result<PathBuf, String> {
        if !process::is_there("setpriv") {
            return Err("its two processes are held together by `setpriv` of util-linux".into());
        }
        let told = |why| format!("{why}\n    install rabbitmq-server, or set {}", self.variable());
        UNPACKED.get(complete).map(|root| root.join(UNPACKED_HOME)).map_err(told)
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

/// Adds Erlang's programs beside the scripts, where `run.sh` looks first.
fn complete(root: &Path) -> Result<(), String> {
    let bin = root.join(UNPACKED_HOME).join("bin");
    write_script(&bin.join("erl"), ERL)?;
    write_script(&bin.join("epmd"), EPMD)?;
    // Only working software is cached. `crypto` needs the most libraries, so it is the part to try.
    let erl = format!("{UNPACKED_HOME}/bin/erl");
    debian::try_program(root, &erl, &["-noshell", "-eval", "crypto:start(), halt()."])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_gets_the_same_port() {
        let compose = crate::compose();
        assert!(compose.contains("  rabbitmq:"));
        assert!(compose.contains(&format!("127.0.0.1:{}:5672", RabbitMq.preferred_port())));
    }
}
