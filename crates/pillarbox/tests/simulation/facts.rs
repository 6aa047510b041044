//! What some run must have reached: without it the runs prove less than they seem to.

use std::collections::BTreeSet;

use crate::faults::Op;

/// Facts reached, as (subject, fact).
pub(crate) type Facts = BTreeSet<(&'static str, &'static str)>;

const OF_EVERY_CALL: [&str; 6] = [
    "slow",
    "longer than a lease",
    "error before effect",
    "error after effect",
    "crash before effect",
    "crash after effect",
];

const OTHERS: &[(&str, &str)] = &[
    ("heartbeat", "evicted"),
    ("clock", "jumps back"),
    ("clock", "jumps forward"),
    ("event", "accepted twice"),
    ("event", "committed late"),
    ("event", "dead"),
    ("event", "dead, blocking its group"),
    ("event", "dead, expired"),
    ("event", "dead, undecodable"),
    ("event", "done"),
    ("event", "noted why it waits"),
    ("event", "promoted when due"),
    ("event", "retried"),
    ("event", "tried with care"),
    ("commit", "unknown"),
    ("exporter", "panics"),
    ("fetch", "passes a row by"),
    ("hot path", "full"),
    ("hot path", "taken"),
    ("hot path", "written again after an unknown commit"),
    ("node", "closed"),
    ("node", "crashed while closing"),
    ("node", "frozen"),
    ("node", "frozen beyond its lease"),
    ("node", "joins again after its eviction"),
    ("operator", "cancels"),
    ("operator", "cancels during an outage"),
    ("operator", "discards"),
    ("operator", "pauses"),
    ("leader", "gives back what another had in hand"),
    ("operator", "purges"),
    ("operator", "replays"),
    ("operator", "resumes"),
    ("operator", "skips"),
    ("operator", "unblocks"),
    ("policy", "panics"),
    ("promote", "moves nothing of what is due"),
    ("settle", "beside another"),
    ("settle", "fails beside another"),
    ("settle", "fenced"),
    ("settle", "fenced beside another"),
    ("settle", "finds a row locked"),
    ("settle", "names a number given again"),
    ("settle", "repeats a failure that was counted"),
    ("settle", "repeats an attempt that was counted"),
    ("settle", "spares what was replayed meanwhile"),
    ("settle", "stale"),
    ("sink", "accepts"),
    ("sink", "accepts after its sender is gone"),
    ("sink", "accepts and never says so"),
    ("sink", "accepts and says it failed"),
    ("sink", "crash after it took"),
    ("sink", "crash before it takes"),
    ("sink", "fails"),
    ("sink", "fails several at once"),
    ("sink", "hangs"),
    ("sink", "has a route that fails"),
    ("sink", "has a route that is shut"),
    ("sink", "has no route"),
    ("sink", "is unavailable"),
    ("sink", "kills the process"),
    ("sink", "panics"),
    ("sink", "refuses a batch"),
    ("sink", "rejects"),
    ("sink", "takes a part of a batch"),
    ("sink", "throttles"),
    ("slot", "handed over"),
    ("slot", "taken over from a dead node"),
    ("store", "gives numbers again"),
    ("sweep", "finds what was passed by"),
    ("transaction", "dropped"),
    ("transaction", "rolled back"),
    ("outages", "down"),
    ("outages", "read-only"),
];

/// Those that no run reached.
pub(crate) fn missing(reached: &Facts) -> Vec<(&'static str, &'static str)> {
    let of_calls = Op::ALL.iter().flat_map(|op| OF_EVERY_CALL.iter().map(|fact| (op.name(), *fact)));
    of_calls.chain(OTHERS.iter().copied()).filter(|fact| !reached.contains(fact)).collect()
}
