//! The cases: what is done to the processes while they are under load.

use std::io::Write;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::checker::{Faults, Terms, judge};
use crate::crew::Crew;
use crate::fixtures::{Commits, Fixture, Site, Stop};
use crate::journal::{Journal, Line, What};
use crate::plan::Mode;

/// Short, so that others take over soon.
const SHORT_LEASE: Duration = Duration::from_secs(1);
/// Long, so that nobody is evicted because the machine is busy.
const LONG_LEASE: Duration = Duration::from_secs(6);

/// What a store must have for a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A server that can be stopped and started.
    Server,
    /// One whose processes can be killed alone.
    Backends,
    /// One that can lose commits.
    Forgetful,
}

/// What is done, to which kind of outbox.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    mode: Mode,
    lease: Duration,
    faults: Faults,
    needs: Needs,
    commits: Commits,
    act: fn(&mut Crew<'_>) -> Result<(), String>,
}

const KILLED: Case = Case {
    mode: Mode::Ordered,
    lease: SHORT_LEASE,
    faults: Faults::Some,
    needs: Needs::Nothing,
    commits: Commits::Kept,
    act: kill_ten_times,
};
const UNHARMED: Case = Case {
    mode: Mode::Ordered,
    lease: LONG_LEASE,
    faults: Faults::None,
    needs: Needs::Nothing,
    commits: Commits::Kept,
    act: come_and_go,
};
const STOPPED: Case = Case {
    mode: Mode::Ordered,
    lease: SHORT_LEASE,
    faults: Faults::Some,
    needs: Needs::Nothing,
    commits: Commits::Kept,
    act: stop_and_continue,
};
const RESTARTED: Case = Case {
    mode: Mode::Ordered,
    lease: SHORT_LEASE,
    faults: Faults::Some,
    needs: Needs::Server,
    commits: Commits::Kept,
    act: kill_and_restart,
};

const BROKEN: Case = Case {
    mode: Mode::Ordered,
    lease: SHORT_LEASE,
    faults: Faults::Some,
    needs: Needs::Backends,
    commits: Commits::Kept,
    act: break_the_server,
};

impl Case {
    /// Whether it can be made on such a store.
    pub(crate) fn suits(&self, fixture: &dyn Fixture) -> bool {
        match self.needs {
            Needs::Nothing => fixture.is_spared(),
            Needs::Server => fixture.has_server(),
            Needs::Backends => fixture.has_backends(),
            Needs::Forgetful => fixture.can_forget(),
        }
    }

    pub(crate) fn commits(&self) -> Commits {
        self.commits
    }
}

/// Every case by its name.
pub(crate) const ALL: [(&str, Case); 11] = [
    ("killed_processes_lose_nothing_and_groups_keep_their_order", KILLED),
    ("killed_processes_lose_nothing_of_their_lanes", Case { mode: Mode::Unordered, ..KILLED }),
    ("processes_that_come_and_go_deliver_each_event_once_and_in_order", UNHARMED),
    ("processes_that_come_and_go_deliver_each_event_once", Case { mode: Mode::Unordered, ..UNHARMED }),
    ("a_stopped_process_changes_nothing_when_it_goes_on_and_groups_keep_their_order", STOPPED),
    ("a_stopped_process_changes_nothing_when_it_goes_on", Case { mode: Mode::Unordered, ..STOPPED }),
    ("killed_processes_and_a_restarted_database_lose_nothing_and_groups_keep_their_order", RESTARTED),
    (
        "killed_processes_and_a_restarted_database_lose_nothing_of_their_lanes",
        Case { mode: Mode::Unordered, ..RESTARTED },
    ),
    ("killed_processes_of_the_server_lose_nothing_and_groups_keep_their_order", BROKEN),
    (
        "commits_that_a_crash_takes_back_leave_the_rest_whole_and_groups_in_order",
        Case { commits: Commits::TakenBack, needs: Needs::Forgetful, ..BROKEN },
    ),
    (
        "commits_that_a_crash_takes_back_leave_the_rest_of_lanes_whole",
        Case { commits: Commits::TakenBack, needs: Needs::Forgetful, mode: Mode::Unordered, ..BROKEN },
    ),
];

/// Runs a case; a failure tells the seed and the last lines of the journal.
pub(crate) fn run(fixture: &dyn Fixture, site: Site, case: Case) -> Result<(), Failed> {
    let seed = std::env::var("PILLARBOX_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let blame = |what: String, journal: &[Line]| {
        keep(journal);
        Failed::from(format!("{what}\nrun it again with PILLARBOX_SEED={seed}\n{}", tail(journal)))
    };
    let mut crew = Crew::new(fixture, &site, case.mode, case.lease, seed)?;
    if let Err(error) = (case.act)(&mut crew) {
        return Err(blame(error, &crew.journal.lines));
    }
    let evidence = crew.finish().map_err(|(error, Journal { lines, .. })| blame(error, &lines))?;
    let Case { mode, lease, faults, commits, .. } = case;
    match judge(&evidence, Terms { mode, faults, commits, lease }) {
        Ok(counts) => {
            // For people who let the cases run alone.
            let _ = writeln!(std::io::stdout(), "{counts}");
            Ok(())
        }
        Err(wrong) => {
            let shown = wrong.iter().take(10).cloned().collect::<Vec<_>>().join("\n");
            Err(blame(format!("{} findings, the first:\n{shown}", wrong.len()), &evidence.lines))
        }
    }
}

/// Writes the whole journal to the file that `PILLARBOX_JOURNAL` names, for people who search for a fault.
fn keep(journal: &[Line]) {
    let Some(file) = std::env::var_os("PILLARBOX_JOURNAL") else { return };
    let show = |line: &Line| format!("{:.3} {} {}\n", line.time.as_secs_f64(), line.by, line.what);
    let text: String = journal.iter().map(show).collect();
    if let Err(error) = std::fs::write(&file, text) {
        let _ = writeln!(std::io::stdout(), "{} can't be written: {error}", file.display());
    }
}

/// What was logged, and the last lines of everything.
fn tail(lines: &[Line]) -> String {
    const LOGGED: usize = 60;
    const LAST: usize = 40;
    let show = |line: &Line| format!("{} {}", line.by, line.what);
    let telling = |line: &&Line| matches!(line.what, What::Log { .. } | What::Failed { .. } | What::Left);
    let logged: Vec<String> = lines.iter().filter(telling).map(show).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LAST)).map(show);
    let logged = logged[logged.len().saturating_sub(LOGGED)..].iter().cloned();
    logged.chain(["…".to_owned()]).chain(last).collect::<Vec<_>>().join("\n")
}

/// PBX-010, PBX-011, PBX-012, PBX-024: ten times a process dies at a point that is left to chance; nothing that was
/// committed is lost, nothing else is delivered, and what comes twice was in the hands of one that died.
fn kill_ten_times(crew: &mut Crew<'_>) -> Result<(), String> {
    crew.start('a')?;
    crew.start('b')?;
    crew.until_ready('a')?;
    for _ in 0..10 {
        let victim = if crew.rng.bool() { 'a' } else { 'b' };
        let label = crew.label(victim);
        let by_victim = |line: &Line| line.by == label;
        match crew.rng.u8(0..5) {
            // It may not even be ready.
            0 => {}
            1 => {
                let count = crew.rng.usize(1..300);
                crew.journal.until(count, |line| matches!(line.what, What::Delivered { .. }))?;
            }
            2 => {
                let count = crew.rng.usize(1..30);
                crew.journal
                    .until(count, |line| by_victim(line) && matches!(line.what, What::Acked { .. }))?;
            }
            _ => {
                let count = crew.rng.usize(1..200);
                let delivered = |line: &Line| matches!(line.what, What::Delivered { .. });
                crew.journal.until(count, |line| by_victim(line) && delivered(line))?;
            }
        }
        crew.kill(victim)?;
        crew.start(victim)?;
    }
    Ok(())
}

/// PBX-010, PBX-011, PBX-012, PBX-014, PBX-024: three processes under load, thirty of which are killed, on a database that
/// is stopped once in order and crashes twice; nothing is lost, nothing is made up, and groups keep their order.
fn kill_and_restart(crew: &mut Crew<'_>) -> Result<(), String> {
    const NAMES: [char; 3] = ['a', 'b', 'c'];
    let kills = crew.fixture.kills();
    let mut stops = [Stop::Fast, Stop::Immediate, Stop::Kill];
    crew.rng.shuffle(&mut stops);
    NAMES.iter().try_for_each(|name| crew.start(*name))?;
    crew.until_ready('a')?;
    let delivered = |line: &Line| matches!(line.what, What::Delivered { .. });
    for kill in 0..kills {
        let victim = NAMES[crew.rng.usize(..NAMES.len())];
        let label = crew.label(victim);
        let count = crew.rng.usize(1..150);
        match crew.rng.u8(0..3) {
            0 => crew.journal.until(count, delivered)?,
            1 => crew.journal.until(1 + count / 10, |line| line.by == label && delivered(line))?,
            _ => {
                let acked = |line: &Line| matches!(line.what, What::Acked { .. });
                crew.journal.until(1 + count / 10, |line| line.by == label && acked(line))?;
            }
        }
        crew.kill(victim)?;
        let each = kills / stops.len();
        if kill % each == each / 2 {
            crew.restart(stops[kill / each])?;
        }
        crew.start(victim)?;
    }
    crew.journal.until(300, delivered)
}

/// PBX-085, PBX-010, PBX-024, PBX-035: under load a process of the server is killed, and the server itself is, and processes of
/// ours; whatever commits that takes back, numbers and done marks among them, what is there in the end was delivered.
fn break_the_server(crew: &mut Crew<'_>) -> Result<(), String> {
    const NAMES: [char; 3] = ['a', 'b', 'c'];
    let one = if crew.fixture.has_backends() { Stop::Backend } else { Stop::Kill };
    let mut stops = [one, one, Stop::Kill, Stop::Immediate];
    crew.rng.shuffle(&mut stops);
    NAMES.iter().try_for_each(|name| crew.start(*name))?;
    crew.until_ready('a')?;
    let delivered = |line: &Line| matches!(line.what, What::Delivered { .. });
    for stop in stops {
        let count = crew.rng.usize(50..400);
        crew.journal.until(count, delivered)?;
        crew.restart(stop)?;
        let victim = NAMES[crew.rng.usize(..NAMES.len())];
        let count = crew.rng.usize(1..200);
        crew.journal.until(count, delivered)?;
        crew.kill(victim)?;
        crew.start(victim)?;
    }
    crew.journal.until(300, delivered)
}

/// PBX-010, PBX-011, PBX-012: processes join late and stop in order, writing all the time, while groups and lanes
/// change hands; each event is delivered once.
fn come_and_go(crew: &mut Crew<'_>) -> Result<(), String> {
    let delivered_by = |crew: &mut Crew<'_>, name: char, count: usize| {
        let label = crew.label(name);
        crew.journal.until(count, |line| line.by == label && matches!(line.what, What::Delivered { .. }))
    };
    crew.start('a')?;
    delivered_by(crew, 'a', 100)?;
    for (comes, goes) in [('b', 'b'), ('b', 'a'), ('a', 'b'), ('c', 'a')] {
        crew.start(comes)?;
        let count = crew.rng.usize(1..300);
        delivered_by(crew, comes, count)?;
        crew.leave(goes)?;
    }
    delivered_by(crew, 'c', 100)
}

/// PBX-010, PBX-011, PBX-012: a process stands still until others have evicted it, and goes on: it learns that its work is
/// theirs now, its late outcomes change nothing, and it joins anew.
fn stop_and_continue(crew: &mut Crew<'_>) -> Result<(), String> {
    const TRIES: usize = 12;
    crew.start('a')?;
    crew.start('b')?;
    let mut stops = 0;
    for _ in 0..TRIES {
        let (victim, other) = if crew.rng.bool() { ('a', 'b') } else { ('b', 'a') };
        let (label, others) = (crew.label(victim), crew.label(other));
        let count = crew.rng.usize(1..100);
        let delivered = |line: &Line| matches!(line.what, What::Delivered { .. });
        crew.journal.until(count, |line| line.by == label && delivered(line))?;
        crew.stop(victim)?;
        let evicted = until_evicted(crew, &label, &others);
        crew.signal(victim, "CONT")?;
        if evicted? {
            stops += 1;
            crew.journal.until(1, |line| line.by == label && matches!(line.what, What::Log { .. }))?;
        }
        if stops == 3 {
            return Ok(());
        }
    }
    Err(format!("a process was stopped {TRIES} times and evicted only {stops} times"))
}

/// Looks at the nodes whenever the other process has reported something. False if that one can't write: the one that
/// stands still has a lock.
fn until_evicted(crew: &mut Crew<'_>, label: &str, others: &str) -> Result<bool, String> {
    const LOOK_EVERY: usize = 20;
    loop {
        for _ in 0..LOOK_EVERY {
            let line = crew.journal.next()?.ok_or("every process has ended")?;
            if line.by == others && matches!(line.what, What::Failed { .. }) {
                return Ok(false);
            }
        }
        if crew.nodes()?.iter().all(|node| node.label != label) {
            return Ok(true);
        }
    }
}
