//! Forged evidence: the checker accepts what the engine may do, and refuses everything beyond it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libtest_mimic::Failed;
use pillarbox::model::Status;

use super::{Faults, Terms, judge};
use crate::crew::{Evidence, Fault, Interruption, Stored};
use crate::fixtures::Commits;
use crate::journal::{Line, What};
use crate::plan::Mode;

const LEASE: Duration = Duration::from_secs(1);
const REGISTERED: &str = "INFO node registered";
const EVICTED: &str = "WARN node was evicted: its work went to others; registering again";

type Proof = fn() -> Result<(), Failed>;

/// Every test of the checker by its name.
pub(crate) const ALL: [(&str, Proof); 9] = [
    ("an_honest_run_is_accepted", honest),
    ("a_lost_or_doubled_or_reordered_event_is_found", broken_delivery),
    ("a_duplicate_of_a_killed_process_must_have_been_pending", duplicates_of_the_killed),
    ("what_an_eviction_repeats_is_bounded_by_the_last_lease", duplicates_of_the_evicted),
    ("an_evicted_process_ends_only_what_it_had_in_hand", late_deliveries),
    ("the_first_takeovers_charge_nothing", early_charges),
    ("an_attempt_without_a_delivery_needs_a_fault_of_its_own", undelivered_attempts),
    ("a_takeover_charges_only_the_first_event_of_a_group", charged_backlog),
    ("a_lost_answer_repeats_only_a_refusal", repeated_refusals),
];

/// Evidence that is put together line by line.
struct Forgery {
    evidence: Evidence,
    terms: Terms,
    now: Duration,
}

impl Forgery {
    fn new(mode: Mode) -> Self {
        let evidence = Evidence {
            lines: Vec::new(),
            interruptions: Vec::new(),
            parcels: BTreeMap::new(),
            records: Vec::new(),
            nodes: Vec::new(),
            held_groups: 0,
        };
        let terms = Terms { mode, faults: Faults::Some, commits: Commits::Kept, lease: LEASE };
        Self { evidence, terms, now: Duration::ZERO }
    }

    fn line(&mut self, by: &str, what: What) {
        self.now += Duration::from_millis(1);
        self.evidence.lines.push(Line { by: by.to_owned(), what, time: self.now });
    }

    fn log(&mut self, by: &str, text: &str) {
        self.line(by, What::Log { text: text.to_owned() });
    }

    /// Commits an event that is done in the end.
    fn write(&mut self, group: u32, number: u32) {
        let id = id(group, number);
        self.evidence.parcels.insert(id.clone(), (group, number));
        self.evidence.records.push(Stored {
            id: id.clone(),
            status: Status::Done,
            attempts: 0,
            locked: false,
        });
        self.line("w", What::Acked { ids: vec![id] });
    }

    fn deliver(&mut self, by: &str, group: u32, number: u32) {
        self.line(by, What::Delivered { group, number, id: id(group, number) });
    }

    fn refuse(&mut self, by: &str, group: u32, number: u32) {
        self.line(by, What::Balked { id: id(group, number) });
    }

    fn attempts(&mut self, group: u32, number: u32, attempts: usize) {
        let id = id(group, number);
        let record = self.evidence.records.iter_mut().find(|record| record.id == id);
        record.expect("it was written").attempts = attempts;
    }

    fn fault(&mut self, fault: Fault, label: &str, pending: &[(u32, u32)]) {
        let number = self.evidence.interruptions.len();
        self.line(label, What::Interrupted(number));
        self.line(label, What::Counted(number));
        let pending: BTreeSet<String> = pending.iter().map(|(group, number)| id(*group, *number)).collect();
        self.evidence.interruptions.push(Interruption { fault, label: label.to_owned(), pending });
    }

    /// A process is killed with these events pending, and another one registers.
    fn kill(&mut self, label: &str, pending: &[(u32, u32)]) {
        self.fault(Fault::Killed, label, pending);
        self.log("b", REGISTERED);
    }

    fn accepted(&self) -> Result<(), Failed> {
        let judged = judge(&self.evidence, self.terms);
        judged.map(drop).map_err(|wrong| format!("accused wrongly: {wrong:?}").into())
    }

    /// It is found out for something like this.
    fn refused(&self, for_what: &str) -> Result<(), Failed> {
        match judge(&self.evidence, self.terms) {
            Ok(counts) => Err(format!("not found out: {for_what}; {counts}").into()),
            Err(wrong) if wrong.iter().any(|one| one.contains(for_what)) => Ok(()),
            Err(wrong) => Err(format!("not found out: {for_what}, but {wrong:?}").into()),
        }
    }
}

fn id(group: u32, number: u32) -> String {
    format!("e{group}-{number}")
}

/// Two events of a group; one was delivered by a process that was killed before it could settle it.
fn killed_once() -> Forgery {
    let mut run = Forgery::new(Mode::Ordered);
    run.log("a", REGISTERED);
    run.write(1, 1);
    run.write(1, 2);
    run.refuse("a", 1, 1);
    run.deliver("a", 1, 1);
    run.kill("a", &[(1, 1), (1, 2)]);
    run.deliver("b", 1, 1);
    run.deliver("b", 1, 2);
    run.attempts(1, 1, 1);
    run
}

/// PBX-010, PBX-011
fn honest() -> Result<(), Failed> {
    killed_once().accepted()
}

/// PBX-010, PBX-011, PBX-024
fn broken_delivery() -> Result<(), Failed> {
    let mut lost = killed_once();
    lost.write(1, 3);
    lost.refused("never delivered")?;
    let mut unsettled = killed_once();
    unsettled.evidence.records[1].status = Status::Retry;
    unsettled.refused("was delivered and is")?;
    let mut phantom = killed_once();
    phantom.deliver("b", 7, 1);
    phantom.refused("was not committed")?;
    let mut reordered = killed_once();
    reordered.write(1, 3);
    reordered.write(1, 4);
    reordered.deliver("b", 1, 4);
    reordered.deliver("b", 1, 3);
    reordered.refused("came as number")?;
    let mut twice = killed_once();
    twice.deliver("b", 1, 2);
    twice.refused("again by b")
}

/// PBX-024
fn duplicates_of_the_killed() -> Result<(), Failed> {
    let mut run = killed_once();
    run.evidence.interruptions[0].pending.remove(&id(1, 1));
    run.refused("was delivered by a and again by b")
}

/// A process that is evicted at the end of its lease, with one delivery long before and one shortly before.
fn evicted() -> Forgery {
    let mut run = Forgery::new(Mode::Unordered);
    run.log("a", REGISTERED);
    for number in 1..=2 {
        run.write(number, 1);
    }
    run.deliver("a", 1, 1);
    run.now += 10 * LEASE;
    run.deliver("a", 2, 1);
    run.now += 3 * LEASE;
    run.log("a", EVICTED);
    run
}

/// PBX-024
fn duplicates_of_the_evicted() -> Result<(), Failed> {
    let mut run = evicted();
    run.deliver("b", 2, 1);
    run.accepted()?;
    run.deliver("b", 1, 1);
    run.refused("e1-1 was delivered by a and again by b")
}

/// PBX-024
fn late_deliveries() -> Result<(), Failed> {
    let mut run = evicted();
    for number in 11..=15 {
        run.write(number, 1);
        run.deliver("b", number, 1);
    }
    (11..=14).for_each(|number| run.deliver("a", number, 1));
    run.accepted()?;
    run.deliver("a", 15, 1);
    run.refused("was delivered by b and again by a")
}

/// PBX-024, PBX-063: with four workers events go alone after the third eviction.
fn early_charges() -> Result<(), Failed> {
    for (kills, honest) in [(1, false), (2, false), (3, true)] {
        let mut run = Forgery::new(Mode::Ordered);
        run.log("a", REGISTERED);
        run.write(1, 1);
        (0..kills).for_each(|_| run.kill("a", &[(1, 1)]));
        run.deliver("b", 1, 1);
        run.attempts(1, 1, 1);
        if honest { run.accepted() } else { run.refused("did not go alone") }?;
    }
    Ok(())
}

/// PBX-024, PBX-063
fn undelivered_attempts() -> Result<(), Failed> {
    let events = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)];
    let forge = |charged: usize| {
        let mut run = Forgery::new(Mode::Ordered);
        run.log("a", REGISTERED);
        events.iter().for_each(|(group, number)| run.write(*group, *number));
        (0..4).for_each(|_| run.kill("a", &events));
        for (place, (group, number)) in events.iter().enumerate() {
            run.deliver("b", *group, *number);
            run.attempts(*group, *number, if place < charged { 2 } else { 0 });
        }
        run
    };
    forge(4).accepted()?;
    forge(5).refused("attempts without a delivery")?;
    let mut spared = forge(1);
    spared.evidence.interruptions.iter_mut().for_each(|one| one.pending.clear());
    spared.refused("failed 0 times and has 2 attempts")
}

/// PBX-063
fn charged_backlog() -> Result<(), Failed> {
    let forge = |charged: u32| {
        let mut run = Forgery::new(Mode::Ordered);
        run.log("a", REGISTERED);
        let backlog: Vec<(u32, u32)> = (1..=20).map(|number| (1, number)).collect();
        backlog.iter().for_each(|(group, number)| run.write(*group, *number));
        (0..3).for_each(|_| run.kill("a", &backlog));
        for (group, number) in backlog {
            run.deliver("b", group, number);
            run.attempts(group, number, usize::from(number <= charged));
        }
        run
    };
    forge(3).accepted()?;
    forge(20).refused("changes of its holder")
}

/// PBX-024
fn repeated_refusals() -> Result<(), Failed> {
    for fault in [Fault::Crashed, Fault::Restarted] {
        for (attempts, honest) in [(1, true), (2, false)] {
            let mut run = Forgery::new(Mode::Ordered);
            run.log("a", REGISTERED);
            run.write(1, 1);
            run.refuse("a", 1, 1);
            run.fault(fault, "database", &[(1, 1)]);
            run.deliver("a", 1, 1);
            run.attempts(1, 1, attempts);
            if honest { run.accepted() } else { run.refused("did not go alone") }?;
        }
    }
    let mut restarted = Forgery::new(Mode::Ordered);
    restarted.log("a", REGISTERED);
    restarted.write(1, 1);
    restarted.deliver("a", 1, 1);
    restarted.fault(Fault::Restarted, "database", &[(1, 1)]);
    restarted.deliver("a", 1, 1);
    restarted.refused("again by a")
}
