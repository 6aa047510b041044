//! The relays: real processes, killed and started again.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::endpoint::Endpoint;
use crate::outbox::Outbox;

/// Some relays on one outbox.
pub(crate) struct Relays {
    arguments: Vec<String>,
    running: Vec<Child>,
    random: fastrand::Rng,
}

impl Relays {
    pub(crate) fn start(count: usize, url: &str, outbox: &Outbox, endpoint: &Endpoint) -> Self {
        let layout = outbox.layout.to_string();
        let table = match outbox.layout {
            pillarbox::model::Layout::Native => ["--table", &outbox.table],
            pillarbox::model::Layout::Flowcatalyst => ["--events-table", &outbox.table],
        };
        let words = [
            ["--database-url", url],
            ["--layout", &layout],
            table,
            ["--dispatch-jobs-table", ""],
            ["--api-base-url", &endpoint.url],
            ["--lease", "1s"],
            ["--poll-interval", "200ms"],
            ["--retry-min", "50ms"],
        ];
        let arguments = words.iter().flatten().map(|word| (*word).to_owned()).collect();
        let mut relays = Self { arguments, running: Vec::new(), random: fastrand::Rng::with_seed(11) };
        (0..count).for_each(|_| relays.start_one());
        relays
    }

    fn command(&self) -> Command {
        let mut relay = Command::new(env!("CARGO_BIN_EXE_pillarbox"));
        relay.arg("relay").args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        if std::env::var_os("PILLARBOX_TEST_SHOW").is_none() {
            relay.stderr(Stdio::null());
        }
        relay
    }

    fn start_one(&mut self) {
        let relay = self.command().spawn().expect("a relay starts");
        self.running.push(relay);
    }

    /// Kills one of them, and starts another.
    pub(crate) fn kill_one(&mut self) {
        let which = self.random.usize(..self.running.len());
        let mut relay = self.running.swap_remove(which);
        relay.kill().expect("a process can be killed");
        relay.wait().expect("a killed process ends");
        self.start_one();
    }

    /// Asks all to end, and has one more finish what they left: done marks that the killed ones did not write.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        for relay in &self.running {
            let pid = Pid::from_child(relay);
            kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
        }
        for relay in &mut self.running {
            let status = relay.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a relay that was asked to end: {status}"));
            }
        }
        self.running.clear();
        let last = self.command().arg("--until-empty").status().map_err(|error| error.to_string())?;
        if last.success() { Ok(()) } else { Err(format!("the relay that finishes: {last}")) }
    }
}

/// A test that fails leaves none behind.
impl Drop for Relays {
    fn drop(&mut self) {
        for relay in &mut self.running {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}
