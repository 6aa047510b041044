//! Processes on one database that are killed, stopped and stopped in order, on every store that processes can share.
//!
//! The program is its own worker: started with the word `worker` it is one of the processes.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox_stores::stores;
use tokio::runtime::{Builder, Runtime};

mod cases;
mod checker;
mod crew;
mod fixtures;
mod journal;
#[cfg(feature = "mongodb")]
#[path = "../../../../stores/mongodb/tests/server/mongod.rs"]
#[allow(dead_code, reason = "tests of the store use more of it")]
mod mongod;
mod plan;
#[cfg(any(feature = "mysql", feature = "postgres"))]
#[path = "../../../../stores/postgres/tests/server/mod.rs"]
mod server;
mod worker;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some((plan::WORKER, words)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return worker::run(words);
    }
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("every_shared_store_of_the_list_is_tried", every_store_is_tried)];
    let forged = checker::forged::ALL.into_iter();
    trials.extend(forged.map(|(name, run)| Trial::test(format!("checker::{name}"), run)));
    for fixture in fixtures::all() {
        for (name, case) in cases::ALL.into_iter().filter(|(_, case)| case.suits(&*fixture)) {
            let fixture = Arc::clone(&fixture);
            trials.push(Trial::ignorable_test(
                format!("{}::{name}", fixture.name()),
                move || match block_on(fixture.fresh(case.commits())) {
                    Ok(site) => cases::run(&*fixture, site, case).map(|()| Completion::Completed),
                    Err(reason) => {
                        // A caught write would be lost; the summary of all tests reads this line.
                        let _ = writeln!(std::io::stdout(), "could not run: {}: {reason}", fixture.name());
                        Ok(Completion::ignored_with(format!("could not run: {reason}")))
                    }
                },
            ));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    // One for all: connections of a pool live and die with the runtime that made them.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    });
    RUNTIME.block_on(work)
}

/// MariaDB stands for its kind.
fn every_store_is_tried() -> Result<(), Failed> {
    let kind = |name| if name == "mariadb" { "mysql" } else { name };
    let tried: Vec<&str> = fixtures::all().iter().map(|fixture| kind(fixture.name())).collect();
    let missing = stores().iter().filter(|kind| kind.is_built_in() && !tried.contains(&kind.name));
    match missing.map(|kind| kind.name).collect::<Vec<_>>() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("no fixture for {}", missing.join(", ")).into()),
    }
}
