//! Random sequences of calls against the memory store and every other store: the same answers.
//!
//! A failure prints its seed and a short script. `PILLARBOX_SEED=N` runs that seed alone, `PILLARBOX_SEQUENCES=N` so
//! many seeds.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use pillarbox::model::Layout;
use pillarbox::port::Facts;
use pillarbox_conformance::Harness;
use tokio::runtime::Runtime;

#[path = "../harness/mod.rs"]
mod harness;

mod generate;
mod joins;
mod names;
mod shrink;
mod step;
mod world;

use step::Step;
use world::World;

const SEQUENCES: u64 = 300;
/// A server takes one to two seconds for each, most of it to make and connect to a fresh outbox, and there are many servers.
const SERVER_SEQUENCES: u64 = 12;
/// MongoDB's wire takes several round trips a call where SQL takes one: two to three seconds for each.
const WIRE_SEQUENCES: u64 = 4;
const STEPS: usize = 75;
/// At once: they wait for servers most of the time.
const THREADS: usize = 6;
/// How the names of stores in the flowcatalyst layout end.
const ITEMS: &str = "-flowcatalyst";
/// A kind of call that did something less often than this in all sequences was not tried.
const EFFECTS: usize = 50;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    let (items, native): (Vec<_>, Vec<_>) =
        harness::all().into_iter().partition(|h| h.name().ends_with(ITEMS));
    let mut trials = trials(Layout::Native, native);
    // SQLite is the reference of its layout, since it needs no server.
    let (first, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|h| h.name().starts_with("sqlite"));
    trials.extend(self::trials(Layout::Flowcatalyst, first.into_iter().chain(others).collect()));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The stores of one layout against the first of them, itself too, which shows that sequences have one answer.
fn trials(layout: Layout, harnesses: Vec<Arc<dyn Harness>>) -> Vec<Trial> {
    let Some(reference) = harnesses.first().map(Arc::clone) else { return Vec::new() };
    let tried = Arc::clone(&reference);
    let name = format!("{}::every_call_has_effects", reference.name());
    let mut trials = vec![Trial::test(name, move || every_call_has_effects(&*tried, layout))];
    trials.extend(harnesses.into_iter().map(|harness| {
        let reference = Arc::clone(&reference);
        let name = format!("{}::answers_like_the_{}_store", harness.name(), reference.name());
        Trial::ignorable_test(name, move || compare(&*reference, &*harness, layout))
    }));
    trials
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn compare(reference: &dyn Harness, other: &dyn Harness, layout: Layout) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let sequences = match runtime.block_on(other.fresh()) {
        Ok(fixture) => sequences(fixture.store.facts()),
        Err(reason) => {
            writeln!(std::io::stdout(), "could not run: {}: {reason}", other.name())?;
            return Ok(Completion::ignored_with(format!("could not run: {reason}")));
        }
    };
    let seeds = match number("PILLARBOX_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("PILLARBOX_SEQUENCES").unwrap_or(sequences),
    };
    for seed in seeds {
        let steps = generate::sequence(layout, seed, STEPS);
        if difference(&runtime, reference, other, &steps).is_some() {
            let differs = |steps: &[Step]| difference(&runtime, reference, other, steps).is_some();
            let steps = shrink::shrink(steps, differs);
            let found = difference(&runtime, reference, other, &steps).unwrap_or_default();
            let script: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
            return Err(format!("PILLARBOX_SEED={seed}\n{}\n{found}", script.join("\n")).into());
        }
    }
    Ok(Completion::Completed)
}

fn sequences(facts: &Facts) -> u64 {
    match facts.kind {
        "mongodb" => WIRE_SEQUENCES,
        _ if facts.durable && facts.concurrent_writers => SERVER_SEQUENCES,
        _ => SEQUENCES,
    }
}

/// Sequences whose calls all come to nothing would show nothing.
fn every_call_has_effects(reference: &dyn Harness, layout: Layout) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut effects: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 1..=SEQUENCES {
        let steps = generate::sequence(layout, seed, STEPS);
        let mut world = World::new(runtime.block_on(reference.fresh())?);
        for step in &steps {
            runtime.block_on(world.tell(step));
        }
        world.effects.into_iter().for_each(|(call, times)| *effects.entry(call).or_default() += times);
    }
    // Leaving answers nothing to tell an effect by.
    effects.remove("leave");
    match effects.values().min() {
        Some(least) if *least >= EFFECTS => Ok(()),
        _ => Err(format!("{effects:?}").into()),
    }
}

/// The first answer that differs, in words.
fn difference(
    runtime: &Runtime,
    reference: &dyn Harness,
    other: &dyn Harness,
    steps: &[Step],
) -> Option<String> {
    runtime.block_on(async {
        let mut expected = World::new(reference.fresh().await.expect("the reference runs"));
        let mut found = World::new(other.fresh().await.expect("it ran before"));
        if !(expected.joins && found.joins) {
            (expected.joins, found.joins) = (false, false);
        }
        for (place, step) in steps.iter().enumerate() {
            let (expected, found) = (expected.tell(step).await, found.tell(step).await);
            if expected != found {
                return Some(explain(&format!("step {place}: {step:?}"), &expected, &found));
            }
        }
        let expected = expected.histories().await.expect("the reference answers");
        let found = found.histories().await.unwrap_or_else(|error| vec![format!("{error:?}")]);
        (expected != found).then(|| explain("in the end", &expected, &found))
    })
}

fn explain(place: &str, expected: &[String], found: &[String]) -> String {
    let only = |these: &[String], those: &[String], sign: &str| {
        let lines = these.iter().filter(|line| !those.contains(line));
        lines.map(|line| format!("{sign} {line}")).collect::<Vec<_>>().join("\n")
    };
    let missing = only(expected, found, "-");
    let surplus = only(found, expected, "+");
    format!("{place}\n{missing}\n{surplus}")
}
