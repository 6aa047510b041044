//! A worker: a process that writes and delivers until its standard input ends.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixtures::{self, Ended, Ending, Fixture, OrderWriter};
use crate::journal::{self, What};
use crate::plan::Plan;

/// The word on standard input that ends the writing.
pub(crate) const NO_MORE: &str = "no more";

/// How many groups there are.
const GROUPS: u32 = 24;
/// One transaction in so many is rolled back.
const ROLLED_BACK_ONE_IN: u32 = 8;

pub(crate) fn run(words: &[String]) -> ExitCode {
    let Some(plan) = Plan::parse(words) else { return ExitCode::from(2) };
    let log = tracing_subscriber::fmt().with_writer(Log(plan.label.clone())).with_ansi(false);
    log.without_time().with_target(false).with_max_level(tracing::Level::INFO).init();
    match crate::block_on(work(&plan)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            journal::write(&plan.label, &What::Failed { error });
            ExitCode::FAILURE
        }
    }
}

async fn work(plan: &Plan) -> Result<(), String> {
    let mut told = listen();
    let fixture =
        fixtures::all().into_iter().find(|fixture| fixture.name() == plan.store).ok_or("no such store")?;
    let orders: Arc<dyn OrderWriter> = Arc::from(open(&*fixture, plan).await?);
    journal::write(&plan.label, &What::Ready);
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..plan.writers {
        let rng = fastrand::Rng::with_seed(plan.seed.wrapping_add(writer + 1));
        writers.spawn(write_on(Arc::clone(&orders), plan.label.clone(), Arc::clone(&stop), rng));
    }
    if told.recv().await.is_some() {
        stop.store(true, Ordering::Relaxed);
        while writers.join_next().await.is_some() {}
        journal::write(&plan.label, &What::Written);
        while told.recv().await.is_some() {}
    }
    // Writers go on while the outbox closes and after it has: their events are for others.
    orders.close().await;
    stop.store(true, Ordering::Relaxed);
    while writers.join_next().await.is_some() {}
    journal::write(&plan.label, &What::Left);
    Ok(())
}

/// Starts the outbox; a database that goes away meanwhile is tried again, as whatever restarts processes would do.
async fn open(fixture: &dyn Fixture, plan: &Plan) -> Result<Box<dyn OrderWriter>, String> {
    const TRIES: usize = 20;
    for _ in 1..TRIES {
        match fixture.open(plan).await {
            Ok(writer) => return Ok(writer),
            Err(error) => journal::write(&plan.label, &What::Failed { error }),
        }
    }
    fixture.open(plan).await
}

async fn write_on(
    writer: Arc<dyn OrderWriter>,
    label: String,
    stop: Arc<AtomicBool>,
    mut rng: fastrand::Rng,
) {
    while !stop.load(Ordering::Relaxed) {
        let ending = if rng.u32(..ROLLED_BACK_ONE_IN) == 0 { Ending::Rollback } else { Ending::Commit };
        let what = match writer.write(rng.u32(..GROUPS), rng.u32(1..=3), ending).await {
            Ok(Ended::Committed(ids)) => What::Acked { ids },
            Ok(Ended::RolledBack(ids)) => What::RolledBack { ids },
            // Another group is tried next. There are more groups than a process that stands still can have.
            Ok(Ended::GroupTaken) => continue,
            Err(error) => What::Failed { error },
        };
        journal::write(&label, &what);
    }
}

/// The lines of standard input; ends with it.
fn listen() -> mpsc::Receiver<()> {
    let (sender, told) = mpsc::channel(1);
    // A thread of its own: tokio would wait for a blocked read when it shuts down.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line == NO_MORE && sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    told
}

/// Puts what is logged into the journal.
struct Log(String);

impl<'a> MakeWriter<'a> for Log {
    type Writer = Entry<'a>;

    fn make_writer(&'a self) -> Entry<'a> {
        Entry(&self.0)
    }
}

struct Entry<'a>(&'a str);

impl Write for Entry<'_> {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        let entry = String::from_utf8_lossy(text).trim_end().to_owned();
        journal::write(self.0, &What::Log { text: entry });
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
