//! The servers of one test or benchmark run, which start in parallel and end with the run.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use super::exports::{self, Export};
use super::guard::Guard;
use super::tool::TOOLS;
use super::worker::{Job, News, Report, Turns, Worker};
use super::workspace::Workspace;
use super::{ALL, Server};

/// How long optional servers have to fail after the required ones run, so that failures appear early in the
/// output.
const GRACE: Duration = Duration::from_secs(20);
/// Maximum reports of one worker: that it fetches, and its result.
const REPORTS_EACH: usize = 2;

/// The running servers and tools of a run.
#[derive(Debug, Default)]
pub struct Fleet {
    workers: Vec<Worker>,
    exports: Vec<Export>,
    /// The servers and tools that could not run, with the reasons.
    pub could_not_run: Vec<String>,
    workspace: Option<Workspace>,
    /// Dropped last: until all data is removed, the guard must clean up if we are killed.
    guard: Option<Guard>,
}

/// Servers that are starting. Threads fetch and start them while the caller does something else.
#[derive(Debug)]
pub struct Pending {
    fleet: Fleet,
    reports: Receiver<Report>,
    /// Jobs that have not reported their result.
    awaited: Vec<Job>,
}

impl Fleet {
    /// Starts the servers that the environment does not name, and fetches the tools of tests.
    ///
    /// Returns once all required servers run, and the others run too or had 20 s to fail. The error is
    /// about a required server that did not start. Prints a line about each server on standard output.
    pub fn begin(root: &Path, servers: &[&'static dyn Server]) -> Result<Pending, String> {
        let tools = TOOLS.iter().map(|tool| Job::Get(tool));
        let mut pending = Pending::spawn(root, jobs(servers).chain(tools).collect())?;
        pending.wait_for_musts()?;
        pending.wait_until(Instant::now() + GRACE);
        Ok(pending)
    }

    /// Starts the servers and waits for all. Servers that do not start are listed in `could_not_run`,
    /// required or not.
    pub fn bring_up(root: &Path, servers: &[&'static dyn Server]) -> Result<Self, String> {
        let jobs: Vec<Job> = jobs(servers).collect();
        if jobs.is_empty() { Ok(Self::default()) } else { Pending::spawn(root, jobs).map(Pending::wait) }
    }

    /// The environment variables of the servers, except for those that are already set.
    pub fn exports(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.exports.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Stops all servers and removes their data. The error names what is left.
    pub fn end(&mut self) -> Result<(), String> {
        let ended: Vec<_> = self.workers.drain(..).map(Worker::end).collect();
        let cleared = self.workspace.take().map_or(Ok(()), |workspace| workspace.clear());
        self.guard = None;
        ended.into_iter().collect::<Result<(), _>>().and(cleared)
    }
}

fn jobs(servers: &[&'static dyn Server]) -> impl Iterator<Item = Job> {
    let (given, ours) = exports::split(servers, exports::variable);
    given.into_iter().map(Job::Given).chain(ours.into_iter().map(Job::Start))
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Err(left) = self.end() {
            eprintln!("{left}");
        }
    }
}

impl Pending {
    /// Waits for all servers that are starting.
    pub fn wait(mut self) -> Fleet {
        while !self.awaited.is_empty() {
            let Ok(report) = self.reports.recv() else { break };
            self.note(report);
        }
        std::mem::take(&mut self.fleet)
    }

    fn spawn(root: &Path, jobs: Vec<Job>) -> Result<Self, String> {
        let workspace = Workspace::of_this_run(root)?;
        let space = workspace.check_space();
        let guard = Guard::set(&workspace.folder);
        let (sender, reports) = sync_channel(REPORTS_EACH * (ALL.len() + TOOLS.len()));
        let mut pending = Self { fleet: Fleet::default(), reports, awaited: Vec::new() };
        let folder = workspace.folder.clone();
        pending.fleet.workspace = Some(workspace);
        pending.fleet.guard = Some(guard.map_err(|error| format!("no guard of the servers: {error}"))?);
        space?;
        let turns = Arc::new(Turns::default());
        for job in jobs {
            let worker = Worker::begin(job, folder.join(job.name()), &turns, sender.clone());
            let worker = worker.map_err(|error| format!("no thread for {}: {error}", job.name()))?;
            pending.fleet.workers.push(worker);
            pending.awaited.push(job);
        }
        Ok(pending)
    }

    fn wait_for_musts(&mut self) -> Result<(), String> {
        while self.awaited.iter().any(|job| job.is_must()) {
            let report = self.reports.recv().map_err(|_| "the threads of servers are gone")?;
            match &report.news {
                News::Failed(why) if report.job.is_must() => {
                    let name = report.job.name();
                    return Err(format!("the tests need {name}, which does not start: {why}"));
                }
                _ => self.note(report),
            }
        }
        Ok(())
    }

    fn wait_until(&mut self, deadline: Instant) {
        while !self.awaited.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(report) = self.reports.recv_timeout(left) else { return };
            self.note(report);
        }
    }

    /// Prints a report and adds its result to the fleet.
    fn note(&mut self, Report { job, news }: Report) {
        let name = job.name();
        if !matches!(news, News::Fetching) {
            self.awaited.retain(|awaited| awaited.name() != name);
        }
        match news {
            News::Fetching => println!("{name:<14}being fetched"),
            News::Ready { line, exports } => {
                println!("{name:<14}{line}");
                self.fleet.exports.extend(exports);
            }
            News::Failed(why) => {
                println!("{name:<14}will not run: {why}");
                self.fleet.could_not_run.push(format!("{name}: {why}"));
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // A fetch that is no longer needed is not awaited; it ends with this program.
        let is_awaited = |worker: &Worker| self.awaited.iter().any(|job| job.name() == worker.name);
        self.fleet.workers.retain(|worker| !is_awaited(worker));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    fn told(reports: &[(&str, &str)]) -> (Result<(), String>, Vec<String>) {
        let (sender, receiver) = sync_channel(reports.len());
        let start = |name: &str| Job::Start(find(name).unwrap());
        let awaited = vec![start("postgres-15"), start("postgres-18")];
        for (name, why) in reports {
            let ready = News::Ready { line: "up".into(), exports: Vec::new() };
            let news = if why.is_empty() { ready } else { News::Failed((*why).into()) };
            sender.send(Report { job: start(name), news }).unwrap();
        }
        let mut pending = Pending { fleet: Fleet::default(), reports: receiver, awaited };
        let musts = pending.wait_for_musts();
        pending.wait_until(Instant::now());
        (musts, std::mem::take(&mut pending.fleet.could_not_run))
    }

    #[test]
    fn a_server_that_must_be_up_and_is_not_ends_the_wait_at_once() {
        let (musts, _) = told(&[("postgres-15", "no network")]);
        assert_eq!(musts.unwrap_err(), "the tests need postgres-15, which does not start: no network");
    }

    #[test]
    fn a_server_that_may_be_missing_is_named_and_nothing_else() {
        let (musts, could_not_run) = told(&[("postgres-18", "no network"), ("postgres-15", "")]);
        assert_eq!((musts, could_not_run), (Ok(()), vec!["postgres-18: no network".to_owned()]));
    }
}
