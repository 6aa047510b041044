//! A thread per server of a run, which fetches the software, starts the server and stops it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::exports::Export;
use super::instance::Instance;
use super::runner::Life;
use super::start::{make_readable, start};
use super::tool::Tool;
use super::{Necessity, Server, Site};

/// Maximum parallel fetches: enough to use the network, and few enough not to slow each other down.
const FETCHES_AT_ONCE: usize = 3;

/// The task of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// A server that someone else runs. The worker only looks for installed software that its tests need.
    Given(&'static dyn Server),
    Start(&'static dyn Server),
    Get(&'static Tool),
}

/// A message of a worker to the run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) job: Job,
    pub(super) news: News,
}

#[derive(Debug)]
pub(super) enum News {
    Fetching,
    Ready { line: String, exports: Vec<Export> },
    Failed(String),
}

/// A thread, and the channel that makes it stop its server.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) name: &'static str,
    thread: JoinHandle<Result<(), String>>,
    /// The worker stops its server when this is dropped.
    hold: SyncSender<()>,
}

impl Job {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Given(server) | Self::Start(server) => server.name(),
            Self::Get(tool) => tool.name,
        }
    }

    pub(super) fn is_must(self) -> bool {
        matches!(self, Self::Start(server) if server.need() == Necessity::Must)
    }

    fn is_there(self) -> bool {
        match self {
            Self::Given(_) => true,
            Self::Start(server) => server.find().is_some(),
            Self::Get(tool) => tool.is_there(),
        }
    }

    /// Runs the job. The thread must keep the instance, because the server ends with its thread.
    fn run(self, folder: &Path) -> Result<(Option<Instance>, News), String> {
        match self {
            Self::Given(server) => {
                let line = format!("the one that {} names", server.variable());
                Ok((None, News::Ready { line, exports: extras(server, folder) }))
            }
            Self::Start(server) => {
                let home = server.find().map_or_else(|| server.install(), Ok)?;
                let started = start(server, home, folder, Life::Ours)?;
                let url = server.url(started.instance.record.port);
                let line = format!("up at {url}");
                let exports =
                    [(server.variable(), url)].into_iter().chain(server.extras(&started.home)).collect();
                Ok((Some(started.instance), News::Ready { line, exports }))
            }
            Self::Get(tool) => {
                let path = tool.get(folder)?.display().to_string();
                Ok((None, News::Ready { line: format!("at {path}"), exports: vec![(tool.variable, path)] }))
            }
        }
    }
}

/// Further variables for tests of a server that someone else runs.
fn extras(server: &dyn Server, folder: &Path) -> Vec<Export> {
    let Some(home) = server.find() else { return Vec::new() };
    let site = Site { home: home.clone(), data: folder.join("data"), log: folder.join("log") };
    let readable = make_readable(home, &server.program(&site), folder);
    readable.map(|home| server.extras(&home)).unwrap_or_default()
}

impl Worker {
    /// Starts a job in a folder. Its reports go to the channel; the last one is the result.
    pub(super) fn begin(
        job: Job,
        folder: PathBuf,
        turns: &Arc<Turns>,
        reports: SyncSender<Report>,
    ) -> std::io::Result<Self> {
        let (hold, held) = sync_channel(0);
        let turns = Arc::clone(turns);
        let work = move || work(job, &folder, &turns, &reports, &held);
        let thread = thread::Builder::new().name(job.name().into()).spawn(work)?;
        Ok(Self { name: job.name(), thread, hold })
    }

    /// Stops the server and waits until it has ended.
    pub(super) fn end(self) -> Result<(), String> {
        drop(self.hold);
        self.thread.join().unwrap_or_else(|_| Err(format!("{}: its thread panicked", self.name)))
    }
}

fn work(
    job: Job,
    folder: &Path,
    turns: &Turns,
    reports: &SyncSender<Report>,
    held: &Receiver<()>,
) -> Result<(), String> {
    let report = |news| {
        // Fails if the run has ended early and no longer receives reports.
        let _ = reports.send(Report { job, news });
    };
    let turn = (!job.is_there()).then(|| {
        report(News::Fetching);
        // Required servers do not wait for a turn, because the run waits for them.
        (!job.is_must()).then(|| turns.take())
    });
    let done = job.run(folder);
    drop(turn);
    match done {
        Ok((instance, news)) => {
            report(news);
            // The system kills the server when this thread ends, so the thread waits here.
            let _ = held.recv();
            instance.map_or(Ok(()), Instance::end)
        }
        Err(why) => {
            report(News::Failed(why));
            Ok(())
        }
    }
}

/// Limits the number of parallel fetches.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Turns {
    fn take(&self) -> Turn<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(taken, |taken| *taken >= FETCHES_AT_ONCE);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Turn { turns: self }
    }
}

/// A permit to fetch, returned on drop.
struct Turn<'a> {
    turns: &'a Turns,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.turns.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_few_fetch_at_once() {
        let turns = Turns::default();
        let mut held: Vec<_> = (0..FETCHES_AT_ONCE).map(|_| turns.take()).collect();
        let (sender, receiver) = sync_channel(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = turns.take();
                sender.send(()).unwrap();
            });
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
            held.pop();
            receiver.recv().unwrap();
        });
    }

    #[test]
    fn only_servers_of_ours_can_be_a_must() {
        let server = |name| crate::find(name).unwrap();
        assert!(Job::Start(server("mariadb")).is_must());
        assert!(!Job::Start(server("mysql")).is_must());
        assert!(!Job::Given(server("mariadb")).is_must());
    }
}
