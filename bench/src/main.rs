//! `pillarbox-bench [engine|sqlite]`: prints a table of ratios, measured in turns.
#![expect(clippy::print_stdout, reason = "a benchmark's output is its purpose")]

use pillarbox_bench::engine::{self, PerTransaction};
use pillarbox_bench::report::{Line, Rates};
use pillarbox_bench::sqlite;

const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    anyhow::ensure!(wanted("engine") || wanted("sqlite"), "usage: pillarbox-bench [engine|sqlite]");
    println!("{ROUNDS} rounds in turns; median (lowest to highest); ratio: median of the rounds' ratios");
    if wanted("engine") {
        engines()?;
    }
    if wanted("sqlite") {
        sqlites()?;
    }
    Ok(())
}

fn engines() -> anyhow::Result<()> {
    const EVENTS: usize = 200_000;
    for per in [1, 10, 100] {
        let mut ours = Rates::default();
        for _ in 0..ROUNDS {
            ours.push(EVENTS, engine::run(EVENTS, PerTransaction(per))?);
        }
        let what = format!("engine, a core's second, {per} events a transaction");
        println!("{}", Line { what, ours, floor: None, goal: 500_000.0 }.text());
    }
    Ok(())
}

fn sqlites() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (writers, events) in [(1, 2_000), (8, 4_000)] {
        let (mut ours, mut floor) = (Rates::default(), Rates::default());
        for _ in 0..ROUNDS {
            let dir = tempfile::tempdir_in(".")?;
            floor.push(events, sqlite::bare_end_to_end(&dir.path().join("bare.db"), events)?);
            ours.push(
                events,
                runtime.block_on(sqlite::end_to_end(&dir.path().join("ours.db"), events, writers))?,
            );
        }
        let what = format!("sqlite, write + deliver + settle, {writers} writers");
        println!("{}", Line { what, ours, floor: Some(floor), goal: 0.80 }.text());
    }
    let events = 100_000;
    let (mut ours, mut floor) = (Rates::default(), Rates::default());
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir_in(".")?;
        let (first, second) = (dir.path().join("bare.db"), dir.path().join("ours.db"));
        runtime.block_on(sqlite::fill(&first, events))?;
        runtime.block_on(sqlite::fill(&second, events))?;
        floor.push(events, sqlite::bare_drain(&first, events)?);
        ours.push(events, runtime.block_on(sqlite::drain(&second, events))?);
    }
    let what = format!("sqlite, drain {events} waiting events");
    println!("{}", Line { what, ours, floor: Some(floor), goal: 0.80 }.text());
    Ok(())
}
