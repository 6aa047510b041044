//! The relays: real processes, killed and started again, and stopped until others took over.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;

use crate::endpoint::{Endpoint, Fault};
use crate::outbox::Outbox;

const LOOK: Duration = Duration::from_millis(100);
/// Far longer than a lease.
const TAKEN_OVER: Duration = Duration::from_secs(60);

/// Some relays on one outbox.
pub(crate) struct Relays {
    arguments: Vec<String>,
    running: Vec<Relay>,
    random: fastrand::Rng,
    started: usize,
}

struct Relay {
    process: Child,
    label: String,
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
            // An event that is in flight at a kill has lost an attempt: after thirty kills one may have lost all of three.
            ["--max-retries", "20"],
        ];
        let arguments = words.iter().flatten().map(|word| (*word).to_owned()).collect();
        let mut relays =
            Self { arguments, running: Vec::new(), random: fastrand::Rng::with_seed(11), started: 0 };
        (0..count).for_each(|_| relays.start_one());
        relays
    }

    /// How often relays came or went, those that were killed or evicted included.
    pub(crate) fn changes_of_members(&self, faults: &[Fault]) -> usize {
        // A relay that was stopped registers again, and the one that finishes comes last.
        self.started + 2 * faults.len() + 1
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
        self.started += 1;
        let label = format!("relay-{}", self.started);
        let process = self.command().args(["--label", &label]).spawn().expect("a relay starts");
        self.running.push(Relay { process, label });
    }

    /// Kills one of them, and starts another.
    pub(crate) async fn kill_one(&mut self, outbox: &Outbox, endpoint: &Endpoint) -> Result<Fault, String> {
        let which = self.random.usize(..self.running.len());
        let Relay { mut process, .. } = self.running.swap_remove(which);
        let from = endpoint.arrivals();
        process.kill().expect("a process can be killed");
        process.wait().expect("a killed process ends");
        let pending = outbox.pending().await?;
        let counted = endpoint.arrivals();
        self.start_one();
        Ok(Fault { from, counted, until: counted, pending })
    }

    /// Stops one of them until the others have evicted its node, and lets it go on.
    ///
    /// Items that arrive meanwhile, from the other relays, tell when to look; but all may have arrived.
    pub(crate) async fn stop_one(&mut self, outbox: &Outbox, endpoint: &Endpoint) -> Result<Fault, String> {
        // The last one has just been started and may not have joined.
        let relay = &self.running[self.random.usize(..self.running.len() - 1)];
        let from = endpoint.arrivals();
        relay.signal(Signal::STOP)?;
        let pending = outbox.pending().await;
        let counted = endpoint.arrivals();
        let eviction = async {
            while outbox.has_member(&relay.label).await {
                let _ = timeout(LOOK, endpoint.until_another()).await;
            }
        };
        let evicted = timeout(TAKEN_OVER, eviction).await;
        relay.signal(Signal::CONT)?;
        evicted.map_err(|_| format!("nobody took over from {}, which is stopped", relay.label))?;
        Ok(Fault { from, counted, until: usize::MAX, pending: pending? })
    }

    /// Asks all to end, and has one more finish what they left: done marks that the killed ones did not write.
    pub(crate) async fn stop(mut self, outbox: &Outbox) -> Result<(), String> {
        for relay in &self.running {
            // One that has just been started would die of the signal, as any program does that does not expect it yet.
            let registered = timeout(TAKEN_OVER, outbox.until_member(&relay.label)).await;
            registered.map_err(|_| format!("{} did not register", relay.label))?;
            relay.signal(Signal::TERM)?;
        }
        for relay in &mut self.running {
            let status = relay.process.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a relay that was asked to end: {status}"));
            }
        }
        self.running.clear();
        let last = self.command().arg("--until-empty").status().map_err(|error| error.to_string())?;
        if last.success() { Ok(()) } else { Err(format!("the relay that finishes: {last}")) }
    }
}

impl Relay {
    fn signal(&self, signal: Signal) -> Result<(), String> {
        kill_process(Pid::from_child(&self.process), signal).map_err(|error| error.to_string())
    }
}

/// A test that fails leaves none behind.
impl Drop for Relays {
    fn drop(&mut self) {
        for relay in &mut self.running {
            let _ = relay.process.kill();
            let _ = relay.process.wait();
        }
    }
}
