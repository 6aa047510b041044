//! Runs seeds: one alone, or many on a thread of their own, watched by the wall clock.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Once;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use fastrand::Rng;

use crate::checker;
use crate::facts::Facts;
use crate::history::History;
use crate::plan::{Plan, Scenario};
use crate::script;
use crate::world::World;

/// What came of a run.
pub(crate) struct Verdict {
    pub(crate) plan: Plan,
    pub(crate) history: History,
    pub(crate) facts: Facts,
    pub(crate) wrongs: Vec<String>,
}

/// One run in this many is made twice, and must go the same way.
const TWICE: u64 = 100;
/// One fresh seed for so many fixed ones.
const FRESH: u64 = 10;
/// So many failures are collected before a scenario ends.
const MOST_FAILURES: usize = 25;
/// A run that takes longer by the wall clock spins.
const LONGEST: Duration = Duration::from_secs(60);

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The simulated listener's panics do not come this way: what does is a bug.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with_borrow_mut(|panics| panics.push(info.to_string()));
            before(info);
        }));
    });
}

/// Runs one seed.
pub(crate) fn seed(seed: u64) -> Verdict {
    run(Plan::draw(seed))
}

/// Runs a plan.
pub(crate) fn run(plan: Plan) -> Verdict {
    note_panics();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (world, ending) = runtime.block_on(async {
        let world = World::new(plan);
        let ending = script::play(&world).await;
        (world, ending)
    });
    drop(runtime);
    let (history, mut facts, failures) = world.take();
    let mut wrongs = checker::judge(&world.plan, &world.events(), &history, &ending, &mut facts);
    wrongs.extend(failures);
    wrongs.extend(PANICS.take().into_iter().map(|panic| format!("panic: {panic}")));
    Verdict { plan: world.plan.clone(), history, facts, wrongs }
}

impl Verdict {
    /// All that is needed to run it again, and to see what happened.
    fn report(&self) -> String {
        let mut text = format!(
            "seed {seed} is wrong; alone, with its trace:\n    PILLARBOX_SEED={seed} cargo test -p pillarbox \
             --test simulation -- --nocapture\n{plan:#?}\n",
            seed = self.plan.seed,
            plan = self.plan,
        );
        if alone().is_some() {
            for entry in &self.history.entries {
                let _ = writeln!(text, "{entry}");
            }
        }
        for wrong in self.wrongs.iter().take(20) {
            let _ = writeln!(text, "wrong: {wrong}");
        }
        text
    }
}

/// The one seed that is asked for.
pub(crate) fn alone() -> Option<u64> {
    std::env::var("PILLARBOX_SEED").ok().map(|seed| seed.parse().expect("PILLARBOX_SEED is a number"))
}

fn count(default: u64) -> u64 {
    let count = std::env::var("PILLARBOX_SEEDS").ok();
    count.map_or(default, |count| count.parse().expect("PILLARBOX_SEEDS is a number"))
}

fn first() -> u64 {
    let first = std::env::var("PILLARBOX_FIRST_SEED").ok();
    first.map_or(0, |first| first.parse().expect("PILLARBOX_FIRST_SEED is a number"))
}

/// Fresh seeds of earlier runs that found something.
const FOUND: [u64; 4] = [1_347_199_945_779, 2_100_525_800_654, 2_210_902_976_118, 4_938_439_233_864];

/// Seeds that no run had before, told on standard error whatever comes of them.
fn fresh(scenario: Scenario, count: u64) -> std::ops::Range<u64> {
    let first = Rng::new().u64(1_000_000..1 << 40);
    let (from, to) = (scenario.seed(first), scenario.seed(first + count));
    // Not by a macro, which the test harness would keep for itself.
    let _ = writeln!(std::io::stderr(), "{scenario:?}: {count} fresh seeds from {from} to {to}");
    first..first + count
}

/// Runs so many seeds of a scenario, or the one that is asked for; the facts they reached.
pub(crate) fn many(scenario: Scenario, default: u64) -> Facts {
    let seeds: Vec<u64> = match alone() {
        Some(seed) if Scenario::of(seed) == scenario => vec![seed],
        Some(_) => Vec::new(),
        None => {
            let found = FOUND.into_iter().filter(|seed| Scenario::of(*seed) == scenario);
            let fixed = first()..first() + count(default);
            let drawn = fixed.chain(fresh(scenario, count(default) / FRESH)).map(|n| scenario.seed(n));
            found.chain(drawn).collect()
        }
    };
    let (sender, verdicts) = mpsc::sync_channel(1);
    let work = seeds.clone();
    std::thread::spawn(move || {
        for number in work {
            if sender.send(seed(number)).is_err() {
                return;
            }
        }
    });
    let mut facts = Facts::default();
    let mut failed = Vec::new();
    for number in seeds {
        let verdict = match verdicts.recv_timeout(LONGEST) {
            Ok(verdict) => verdict,
            Err(RecvTimeoutError::Timeout) => panic!("seed {number} spins: PILLARBOX_SEED={number}"),
            Err(RecvTimeoutError::Disconnected) => panic!("seed {number} panics: PILLARBOX_SEED={number}"),
        };
        demand_same(number, &verdict);
        if verdict.wrongs.is_empty() {
            facts.extend(verdict.facts);
        } else {
            failed.push(verdict);
        }
        if failed.len() >= MOST_FAILURES {
            break;
        }
    }
    assert!(failed.is_empty(), "{}", report(&failed));
    facts
}

/// The first in full, of the others the seed and what is first wrong.
fn report(failed: &[Verdict]) -> String {
    let mut text = failed.first().map(Verdict::report).unwrap_or_default();
    for verdict in failed {
        let first = verdict.wrongs.first().map(String::as_str).unwrap_or_default();
        let _ = writeln!(text, "failed: {} {first}", verdict.plan.seed);
    }
    text
}

fn demand_same(number: u64, verdict: &Verdict) {
    if number % TWICE < Scenario::ALL.len() as u64 {
        assert_eq!(seed(number).history.hash(), verdict.history.hash(), "seed {number} went another way");
    }
}
