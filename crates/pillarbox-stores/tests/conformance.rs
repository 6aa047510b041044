//! Every case of the conformance suite on every store: a test `STORE::TOPIC::CASE` each.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox_conformance::{Case, CaseOutcome, Harness, cases, run};
use pillarbox_stores::stores;

mod harness;

/// Cases at once: they wait for servers most of the time.
const THREADS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let mut trials = vec![Trial::test("every_store_of_the_list_is_tried", every_store_of_the_list_is_tried)];
    for harness in harness::all() {
        let fixture = (!arguments.list).then(|| block_on(harness.fresh()));
        let absent = fixture.as_ref().and_then(|fixture| fixture.as_ref().err().cloned());
        if let Some(reason) = &absent {
            // A caught write would be lost; the summary of all tests reads this line.
            let _ = writeln!(std::io::stdout(), "could not run: {}: {reason}", harness.name());
        }
        // A server takes longer to make an outbox than most cases take.
        let ignored = |case: &Case| match &fixture {
            Some(Ok(fixture)) => case.lacks(fixture).map(|why| format!("not applicable: {why}")),
            _ => absent.as_ref().map(|reason| format!("could not run: {reason}")),
        };
        trials.extend(cases().into_iter().map(|case| trial(Arc::clone(&harness), case, ignored(&case))));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(harness: Arc<dyn Harness>, case: Case, ignored: Option<String>) -> Trial {
    let name = format!("{}::{}::{}", harness.name(), case.topic, case.name);
    Trial::ignorable_test(name, move || {
        if let Some(why) = ignored {
            return Ok(Completion::ignored_with(why));
        }
        match block_on(run(&case, &*harness)) {
            CaseOutcome::Passed => Ok(Completion::Completed),
            CaseOutcome::NotApplicable(why) => Ok(Completion::ignored_with(format!("not applicable: {why}"))),
            CaseOutcome::Failed(how) | CaseOutcome::CouldNotRun(how) => Err(Failed::from(how)),
        }
    })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn every_store_of_the_list_is_tried() -> Result<(), Failed> {
    let tried: Vec<String> = harness::all().iter().map(|harness| harness.name().to_owned()).collect();
    let missing =
        stores().iter().filter(|kind| kind.is_built_in() && !tried.iter().any(|name| name == kind.name));
    match missing.map(|kind| kind.name).collect::<Vec<_>>() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("no harness for {}", missing.join(", ")).into()),
    }
}
