//! Judges the attempts of the rows: each was refused, delivered from quarantine, or cut off by a fault.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::Failed;

use crate::endpoint::{Fault, Number};

/// What happened to one item.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tries {
    /// The attempts of its row, without the one that a leader's take counts and that succeeded.
    pub(crate) attempts: usize,
    /// The requests with it that the endpoint refused, or took and answered with a failure.
    pub(crate) refused: usize,
    /// The requests with it that the endpoint accepted.
    pub(crate) accepted: usize,
}

/// No item has an attempt without a reason.
///
/// After an eviction the first event of each group may go alone, with its attempt recorded ahead; it stays if the
/// delivery succeeds. So each change of members explains one in each group, and each fault one without a delivery.
pub(crate) fn check(
    items: &BTreeMap<Number, Tries>,
    faults: &[Fault],
    changes_of_members: usize,
) -> Result<(), String> {
    let mut charged: BTreeMap<usize, usize> = BTreeMap::new();
    let mut undelivered = 0;
    for (item, tries) in items {
        let charges = tries.attempts.saturating_sub(tries.refused);
        let cut = charges.saturating_sub(tries.accepted);
        let cuts = faults.iter().filter(|fault| fault.pending.contains(item)).count();
        if cut > cuts {
            return Err(format!("{item:?}: {tries:?}, and {cuts} faults found it pending"));
        }
        undelivered += cut;
        *charged.entry(item.0).or_default() += charges;
    }
    // The endpoint refuses what is sent alone, too: its attempt is undone a moment later, and the next one recorded.
    let most = 2 * faults.len();
    if undelivered > most {
        return Err(format!("{undelivered} attempts without a delivery, for {} faults", faults.len()));
    }
    match charged.iter().find(|(_, charges)| **charges > changes_of_members) {
        Some((group, charges)) => Err(format!(
            "group {group}: {charges} attempts that were not refused, for {changes_of_members} changes of members"
        )),
        None => Ok(()),
    }
}

type Proof = fn() -> Result<(), Failed>;

/// Every test of the checker by its name.
pub(crate) const FORGED: [(&str, Proof); 3] = [
    ("attempts_of_refused_and_of_suspect_items_are_explained", explained),
    ("an_attempt_without_a_delivery_needs_a_fault_that_found_it_pending", undelivered),
    ("a_takeover_that_charges_the_whole_backlog_is_found", whole_backlog),
];

fn fault(pending: &[Number]) -> Fault {
    let pending: BTreeSet<Number> = pending.iter().copied().collect();
    Fault { from: 0, counted: 0, until: 0, pending }
}

fn accepted(items: &BTreeMap<Number, Tries>, faults: &[Fault], changes: usize) -> Result<(), Failed> {
    check(items, faults, changes).map_err(|wrong| format!("accused wrongly: {wrong}").into())
}

fn found(items: &BTreeMap<Number, Tries>, faults: &[Fault], changes: usize) -> Result<(), Failed> {
    check(items, faults, changes).err().map(drop).ok_or_else(|| "not found out".into())
}

/// PBX-024, RLY-032
fn explained() -> Result<(), Failed> {
    let refused = Tries { attempts: 2, refused: 2, accepted: 1 };
    let suspect = Tries { attempts: 1, refused: 0, accepted: 1 };
    let cut = Tries { attempts: 2, refused: 0, accepted: 1 };
    let items = BTreeMap::from([((0, 1), refused), ((0, 2), suspect), ((1, 1), cut)]);
    accepted(&items, &[fault(&[(1, 1)])], 2)
}

/// PBX-024
fn undelivered() -> Result<(), Failed> {
    let cut = Tries { attempts: 2, refused: 0, accepted: 1 };
    found(&BTreeMap::from([((0, 1), cut)]), &[fault(&[(0, 2)])], 9)?;
    let all: Vec<Number> = (0..3).map(|group| (group, 1)).collect();
    let items = all.iter().map(|item| (*item, cut)).collect();
    found(&items, &[fault(&all)], 9)
}

/// PBX-063
fn whole_backlog() -> Result<(), Failed> {
    let suspect = Tries { attempts: 1, refused: 0, accepted: 1 };
    let backlog: Vec<Number> = (0..20).map(|number| (0, number)).collect();
    let items = backlog.iter().map(|item| (*item, suspect)).collect();
    found(&items, &[fault(&backlog)], 4)
}
