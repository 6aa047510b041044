//! Evicts nodes of relays that died on this host, so that a relay that restarts after a crash need not wait for their leases.
//!
//! A node publishes which process it is. A successor on the same host can see whether that process still runs; nobody else
//! can, and waits for the lease.

use std::time::Duration;

use pillarbox::model::Seq;
use pillarbox::port::{Heartbeat, NodeInfo, Table};
use serde::{Deserialize, Serialize};

/// A process: its id is unique only within a boot of the host and a PID namespace, and may be reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    boot: String,
    namespace: String,
    pid: i32,
    /// When the process started, in clock ticks since boot.
    started: u64,
}

/// The published state of a node, as far as it matters here.
#[derive(Deserialize)]
struct Published {
    process: Option<Process>,
}

impl Process {
    /// This process, or `None` where the system does not tell.
    pub(crate) fn current() -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned();
        let pid = i32::try_from(std::process::id()).ok()?;
        let started = Stat::read(pid)?.started;
        Some(Self { boot, namespace, pid, started })
    }

    /// Whether this process is known to have ended. False if it runs, or if `observer` can't tell.
    fn has_ended(&self, observer: &Self) -> bool {
        if self.boot != observer.boot || self.namespace != observer.namespace {
            return false;
        }
        match Stat::read(self.pid) {
            Some(stat) => stat.started != self.started || stat.is_zombie && has_one_thread(self.pid),
            // The files of other users' processes may be hidden, so a missing file proves nothing.
            None => is_unused(self.pid),
        }
    }
}

/// The fields of `/proc/PID/stat` that identify a process.
struct Stat {
    is_zombie: bool,
    started: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field, the name in parentheses, may contain anything.
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
        let is_zombie = matches!(fields.next()?, "Z" | "X");
        let started = fields.nth(18)?.parse().ok()?;
        Some(Self { is_zombie, started })
    }
}

/// The main thread of a process may have ended while other threads still run.
fn has_one_thread(pid: i32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() <= 1)
}

#[cfg(target_os = "linux")]
fn is_unused(pid: i32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(target_os = "linux"))]
fn is_unused(_pid: i32) -> bool {
    false
}

/// Ends the leases of nodes whose processes have ended on this host. The next registration evicts them.
///
/// A failure only means that the relay waits for the leases.
pub(crate) async fn end_leases_of_dead(source: &str, table: &dyn Table, observer: &Process) {
    let nodes = match table.admin().nodes().await {
        Ok(nodes) => nodes,
        Err(error) => return tracing::debug!(source, %error, "nodes could not be listed"),
    };
    for node in nodes.iter().filter(|node| is_dead(node, observer)) {
        // A lease of zero expires at once. The node can't be renewing it: its process has ended.
        let last = Heartbeat {
            node: node.node,
            lease: Duration::ZERO,
            trusted: Vec::new(),
            release: Vec::new(),
            groups_seen: 0,
            after: Seq(i64::MAX),
            sweep: false,
            now: None,
        };
        match table.heartbeat(last).await {
            Ok(_) => tracing::info!(
                source,
                node = %node.node,
                label = %node.label,
                "the process of this node has ended: its slots are taken over without waiting for its lease"
            ),
            Err(error) => tracing::debug!(source, node = %node.node, %error, "a lease could not be ended"),
        }
    }
}

fn is_dead(node: &NodeInfo, observer: &Process) -> bool {
    let state = node.state.as_deref().and_then(|state| serde_json::from_str::<Published>(state).ok());
    state.and_then(|state| state.process).is_some_and(|process| process.has_ended(observer))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn child() -> (Process, Process, std::process::Child) {
        let me = Process::current().expect("Linux tells");
        let child = std::process::Command::new("sleep").arg("600").spawn().expect("a child starts");
        let pid = i32::try_from(child.id()).expect("ids are small");
        let started = Stat::read(pid).expect("it runs").started;
        (me.clone(), Process { pid, started, ..me }, child)
    }

    /// PBX-140
    #[test]
    fn a_process_has_ended_once_it_was_killed_and_also_before_its_parent_has_noticed() {
        let (me, process, mut child) = child();
        assert!(!me.has_ended(&me) && !process.has_ended(&me));
        child.kill().expect("it can be killed");
        while Stat::read(process.pid).is_some_and(|stat| !stat.is_zombie) {
            std::thread::yield_now();
        }
        assert!(process.has_ended(&me), "a zombie has ended");
        child.wait().expect("it ends");
        assert!(process.has_ended(&me));
    }

    /// PBX-140
    #[test]
    fn only_a_process_of_this_boot_and_namespace_can_be_judged_and_a_reused_id_is_another_process() {
        let (me, process, mut child) = child();
        let reused = Process { started: process.started + 1, ..process.clone() };
        assert!(reused.has_ended(&me));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        let rebooted = Process { boot: "another".to_owned(), ..process.clone() };
        let elsewhere = Process { namespace: "pid:[1]".to_owned(), ..process };
        assert!(!rebooted.has_ended(&me) && !elsewhere.has_ended(&me));
    }
}
