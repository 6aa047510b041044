//! The crew: the processes on one database, ended by the test in whatever way it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{PipeWriter, Write, pipe};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::{Record, Status};
use pillarbox::port::{HeldGroups, List, NodeInfo, Select};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::block_on;
use crate::fixtures::{Fixture, Parcels, Site, Stop};
use crate::journal::{self, Journal, Line, What};
use crate::plan::{Mode, Plan};
use crate::worker::NO_MORE;

/// How many tasks of a worker write all the time.
const WRITERS: u64 = 2;

/// One process; killed when it is dropped.
struct Hand {
    label: String,
    child: Child,
    input: Option<ChildStdin>,
}

impl Drop for Hand {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What happened to a process or to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process got SIGKILL.
    Killed,
    /// The process got SIGSTOP.
    Stopped,
    /// The database crashed and recovered: done marks that did not wait for the disk may be lost.
    Crashed,
    /// The database was stopped in order and started again: answers may be lost.
    Restarted,
}

/// A fault, and the events that were pending right after it. Only these may be delivered again because of it.
pub(crate) struct Interruption {
    pub(crate) fault: Fault,
    /// The incarnation; of no meaning for the database.
    pub(crate) label: String,
    pub(crate) pending: BTreeSet<String>,
}

/// What the outbox says of an event.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) status: Status,
    pub(crate) attempts: usize,
    /// Whether somebody claims it.
    pub(crate) locked: bool,
}

impl From<Record> for Stored {
    fn from(record: Record) -> Self {
        Self {
            id: record.id.to_string(),
            status: record.status,
            attempts: record.attempts as usize,
            locked: record.locked_by.is_some(),
        }
    }
}

/// What a run left behind.
pub(crate) struct Evidence {
    pub(crate) lines: Vec<Line>,
    /// The faults, by their numbers in the journal.
    pub(crate) interruptions: Vec<Interruption>,
    /// What was committed, by the business rows.
    pub(crate) parcels: Parcels,
    /// What the outbox says of it.
    pub(crate) records: Vec<Stored>,
    /// Nodes that are still listed.
    pub(crate) nodes: Vec<NodeInfo>,
    /// Groups that are held back.
    pub(crate) held_groups: usize,
}

/// The processes on one database.
pub(crate) struct Crew<'a> {
    pub(crate) fixture: &'a dyn Fixture,
    site: &'a Site,
    pub(crate) mode: Mode,
    lease: Duration,
    pub(crate) rng: fastrand::Rng,
    pub(crate) journal: Journal,
    pipe: PipeWriter,
    hands: BTreeMap<char, Hand>,
    started: u32,
    interruptions: Vec<Interruption>,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(
        fixture: &'a dyn Fixture,
        site: &'a Site,
        mode: Mode,
        lease: Duration,
        seed: u64,
    ) -> Result<Self, String> {
        let (reader, pipe) = pipe().map_err(|error| error.to_string())?;
        Ok(Self {
            fixture,
            site,
            mode,
            lease,
            rng: fastrand::Rng::with_seed(seed),
            journal: Journal::read(reader),
            pipe,
            hands: BTreeMap::new(),
            started: 0,
            interruptions: Vec::new(),
        })
    }

    /// Starts a new incarnation under this name.
    pub(crate) fn start(&mut self, name: char) -> Result<(), String> {
        self.start_with(name, WRITERS)
    }

    fn start_with(&mut self, name: char, writers: u64) -> Result<(), String> {
        self.started += 1;
        let label = format!("{name}{}", self.started);
        let plan = Plan {
            store: self.fixture.name().to_owned(),
            url: self.site.url.clone(),
            label: label.clone(),
            mode: self.mode,
            lease: self.lease,
            seed: self.rng.u64(..),
            writers,
        };
        let spawn = || {
            let mut child = Command::new(std::env::current_exe()?)
                .args(plan.words())
                .stdin(Stdio::piped())
                .stdout(self.pipe.try_clone()?)
                .spawn()?;
            let input = child.stdin.take();
            std::io::Result::Ok(Hand { label, child, input })
        };
        let hand = spawn().map_err(|error| format!("a worker can't be started: {error}"))?;
        self.hands.insert(name, hand);
        Ok(())
    }

    pub(crate) fn label(&self, name: char) -> String {
        self.hands.get(&name).map(|hand| hand.label.clone()).unwrap_or_default()
    }

    pub(crate) fn until_ready(&mut self, name: char) -> Result<(), String> {
        let label = self.label(name);
        self.journal.until(1, |line| line.by == label && line.what == What::Ready)
    }

    /// Kills it without a warning, and reads what is pending then.
    pub(crate) fn kill(&mut self, name: char) -> Result<(), String> {
        let Some(hand) = self.hands.remove(&name) else { return Ok(()) };
        let label = hand.label.clone();
        self.report(&label, &What::Interrupted(self.interruptions.len()))?;
        drop(hand);
        self.count(Fault::Killed, label)
    }

    /// Stops it with SIGSTOP, and reads what is pending then.
    pub(crate) fn stop(&mut self, name: char) -> Result<(), String> {
        let label = self.label(name);
        self.report(&label, &What::Interrupted(self.interruptions.len()))?;
        self.signal(name, "STOP")?;
        self.until_stopped(name)?;
        self.count(Fault::Stopped, label)
    }

    /// Waits until every thread of the process stands still. A busy machine may run them for a while after the signal, and
    /// what they commit then would be missing among the pending events.
    fn until_stopped(&self, name: char) -> Result<(), String> {
        let hand = self.hands.get(&name).ok_or("nobody of that name")?;
        match waitpid(Some(Pid::from_child(&hand.child)), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => Ok(()),
            ended => Err(format!("{} was to be stopped: {ended:?}", hand.label)),
        }
    }

    fn count(&mut self, fault: Fault, label: String) -> Result<(), String> {
        let pending = self.insist(Self::pending)?;
        self.report(&label, &What::Counted(self.interruptions.len()))?;
        self.interruptions.push(Interruption { fault, label, pending });
        Ok(())
    }

    /// Writes to the journal through the pipe, so that it has its place among what the processes report.
    fn report(&mut self, by: &str, what: &What) -> Result<(), String> {
        self.pipe.write_all(journal::line(by, what).as_bytes()).map_err(|error| error.to_string())
    }

    /// After a crash of the server the test's own idle connections are broken too; a call that meets one throws it away.
    fn insist<T>(&self, ask: impl Fn(&Self) -> Result<T, String>) -> Result<T, String> {
        const IDLE: usize = 8;
        (1..IDLE).find_map(|_| ask(self).ok()).map_or_else(|| ask(self), Ok)
    }

    fn pending(&self) -> Result<BTreeSet<String>, String> {
        let statuses = vec![Status::New, Status::Retry];
        let records = self.records_of(&Select { statuses, ..Select::default() })?;
        Ok(records.into_iter().map(|record| record.id.to_string()).collect())
    }

    /// Ends the database's server and starts it again.
    pub(crate) fn restart(&mut self, how: Stop) -> Result<(), String> {
        let server = Arc::clone(self.site.server.as_ref().ok_or("this store has no server")?);
        let mut told = Ok(());
        let number = self.interruptions.len();
        server.restart(how, &mut || told = self.report("database", &What::Interrupted(number)))?;
        told?;
        let fault = if how == Stop::Fast { Fault::Restarted } else { Fault::Crashed };
        self.count(fault, "database".to_owned())
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: char, signal: &str) -> Result<(), String> {
        let hand = self.hands.get(&name).ok_or("nobody of that name")?;
        // By the shell: a small system has no program for it.
        let sent = Command::new("sh").args(["-c", &format!("kill -s {signal} {}", hand.child.id())]).status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            sent => Err(format!("the signal {signal} can't be sent: {sent:?}")),
        }
    }

    /// The nodes that the store lists now.
    pub(crate) fn nodes(&self) -> Result<Vec<NodeInfo>, String> {
        block_on(self.site.store.admin().nodes()).map_err(|error| error.to_string())
    }

    /// Lets it stop in order, writing to the last.
    pub(crate) fn leave(&mut self, name: char) -> Result<(), String> {
        let Some(hand) = self.hands.get_mut(&name) else { return Ok(()) };
        hand.input = None;
        let label = hand.label.clone();
        self.journal.until(1, |line| line.by == label && line.what == What::Left)?;
        self.reap(name)
    }

    /// It has said that it ends: how.
    fn reap(&mut self, name: char) -> Result<(), String> {
        let Some(mut hand) = self.hands.remove(&name) else { return Ok(()) };
        match hand.child.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("{} ended with {ended:?}", hand.label)),
        }
    }

    /// No more writing; waits until everything has arrived, lets everyone stop in order, and looks at what is there.
    pub(crate) fn finish(mut self) -> Result<Evidence, (String, Journal)> {
        match self.wind_up() {
            Ok((parcels, records)) => {
                let nodes = self.nodes();
                let groups = block_on(self.site.store.admin().groups(HeldGroups::first()))
                    .map_err(|error| error.to_string());
                match (nodes, groups) {
                    (Ok(nodes), Ok(groups)) => Ok(Evidence {
                        lines: self.journal.lines,
                        interruptions: self.interruptions,
                        parcels,
                        records: records.into_iter().map(Stored::from).collect(),
                        nodes,
                        held_groups: groups.len(),
                    }),
                    (nodes, groups) => Err((format!("{nodes:?} {groups:?}"), self.journal)),
                }
            }
            Err(error) => Err((error, self.journal)),
        }
    }

    fn wind_up(&mut self) -> Result<(Parcels, Vec<Record>), String> {
        let names: Vec<char> = self.hands.keys().copied().collect();
        for hand in self.hands.values_mut() {
            let input = hand.input.as_mut().ok_or("a worker without input")?;
            writeln!(input, "{NO_MORE}").map_err(|error| format!("{}: {error}", hand.label))?;
        }
        self.journal.until(names.len(), |line| line.what == What::Written)?;
        let parcels = block_on(self.fixture.parcels(&self.site.url))?;
        let mut missing: BTreeSet<String> = parcels.keys().cloned().collect();
        for line in &self.journal.lines {
            if let What::Delivered { id, .. } = &line.what {
                missing.remove(id);
            }
        }
        self.until_delivered(missing)?;
        for name in names {
            self.leave(name)?;
        }
        let records = self.records()?;
        let pending: BTreeSet<String> = pending(&records).map(|record| record.id.to_string()).collect();
        if pending.is_empty() {
            return Ok((parcels, records));
        }
        // What a killed process delivered and did not settle waits for its lease to end, and comes again.
        self.start_with('z', 0)?;
        self.until_delivered(pending)?;
        self.leave('z')?;
        Ok((parcels, self.records()?))
    }

    fn until_delivered(&mut self, mut missing: BTreeSet<String>) -> Result<(), String> {
        while !missing.is_empty() {
            let next = self.journal.next().and_then(|line| line.ok_or("every process has ended".to_owned()));
            match next {
                Ok(Line { what: What::Delivered { id, .. }, .. }) => missing.remove(id),
                Ok(_) => false,
                Err(error) => return Err(self.lost(&error, &missing)),
            };
        }
        Ok(())
    }

    fn lost(&self, error: &str, missing: &BTreeSet<String>) -> String {
        const SHOWN: usize = 5;
        let records = self.records().unwrap_or_default();
        let shown = pending(&records).filter(|record| missing.contains(record.id.as_str())).take(SHOWN);
        let shown: Vec<_> =
            shown.map(|record| (&record.id, record.seq, record.slot, record.status)).collect();
        let nodes = self.nodes();
        format!("{error}; {} events were not delivered, among them {shown:?}; nodes {nodes:?}", missing.len())
    }

    fn records(&self) -> Result<Vec<Record>, String> {
        self.records_of(&Select::default())
    }

    fn records_of(&self, select: &Select) -> Result<Vec<Record>, String> {
        const PAGE: usize = 5_000;
        let mut records: Vec<Record> = Vec::new();
        loop {
            let after = records.last().map(|record| record.seq);
            let list = List { select: select.clone(), after, limit: PAGE, ..List::default() };
            let page = block_on(self.site.store.admin().list(list)).map_err(|error| error.to_string())?;
            // The writers go on meanwhile: an empty page might never come.
            let is_last = page.len() < PAGE;
            records.extend(page);
            if is_last {
                return Ok(records);
            }
        }
    }
}

fn pending(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| record.status.is_pending())
}
