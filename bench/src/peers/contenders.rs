//! The contenders: what each is, how it is built, how its pending jobs are counted, and what it promises.

use Build::{Cargo, Go, Maven, Npm, Ours};
use Role::{Floor, Peer, Pillarbox};

/// What a contender is in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Bare SQL.
    Floor,
    Pillarbox,
    Peer,
}

/// How an adapter is built and run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Part of this program.
    Ours,
    /// A package of Cargo. The name of its program is the contender's.
    Cargo,
    /// A package of npm with `adapter.mjs`.
    Npm,
    /// A Go module.
    Go,
    /// A Maven project with the class `Adapter`.
    Maven,
}

/// What a contender is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenarios {
    All,
    Drain,
    DrainAndEndToEnd,
}

/// One line of the comparison.
#[derive(Debug)]
pub(crate) struct Contender {
    /// On the command line, and the folder of its adapter.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The version that its adapter pins.
    pub(crate) version: &'static str,
    pub(crate) role: Role,
    pub(crate) build: Build,
    pub(crate) scenarios: Scenarios,
    /// One of so many jobs of the others, where a drain would take minutes.
    pub(crate) share: usize,
    /// How many jobs are not finished.
    pub(crate) pending: &'static str,
    pub(crate) promises: &'static str,
    pub(crate) settings: &'static str,
}

const OUTBOX: &str = "SELECT count(*) FROM outbox_event WHERE status IN (0, 2)";
const JOB: &str = "SELECT count(*) FROM job";
const GRAPHILE: &str = "SELECT count(*) FROM graphile_worker._private_jobs";

const fn floor(
    name: &'static str,
    title: &'static str,
    scenarios: Scenarios,
    settings: &'static str,
) -> Contender {
    Contender {
        name,
        title,
        version: "",
        role: Floor,
        build: Ours,
        scenarios,
        share: 1,
        pending: JOB,
        promises: "deletes; nothing else",
        settings,
    }
}

const fn ours(name: &'static str, title: &'static str, promises: &'static str) -> Contender {
    Contender {
        name,
        title,
        version: env!("CARGO_PKG_VERSION"),
        role: Pillarbox,
        build: Ours,
        scenarios: Scenarios::All,
        share: 1,
        pending: OUTBOX,
        promises,
        settings: "defaults; the outbox as one of several nodes, with a lease of 30 s; sqlx",
    }
}

/// All contenders.
pub(crate) const ALL: &[Contender] = &[
    floor(
        "floor-read",
        "floor: read on + DELETE",
        Scenarios::Drain,
        "lean table, 1 connection, pages of 1,000, synchronous_commit off",
    ),
    floor(
        "floor-lease",
        "floor: lease UPDATE + DELETE",
        Scenarios::DrainAndEndToEnd,
        "lean table, 2 connections, SKIP LOCKED, pages of 1,000, synchronous_commit off",
    ),
    ours("outbox-delete", "Pillarbox outbox, delete", "deletes; at least once; no order"),
    ours("outbox-keep", "Pillarbox outbox, keep", "keeps; at least once; no order"),
    ours(
        "ordered-delete",
        "Pillarbox ordered, delete",
        "deletes; at least once; order in each of 100 groups",
    ),
    ours("queue-delete", "Pillarbox queue, delete", "deletes; at least once, leased; no order"),
    ours("queue-keep", "Pillarbox queue, keep", "keeps; at least once, leased; no order"),
    Contender {
        name: "graphile-worker-rust",
        title: "graphile_worker (Rust)",
        version: "0.14.1",
        role: Peer,
        build: Cargo,
        scenarios: Scenarios::All,
        share: 1,
        pending: GRAPHILE,
        promises: "deletes; at least once, leased; no order",
        settings: "2 local queues of 1,000, concurrency 24, completion batched for 1 ms, which polls without a pause when idle; end to end 1 local queue of 500, refetch delay 100 ms; sqlx",
    },
    Contender {
        name: "graphile-worker-node",
        title: "graphile-worker (Node.js)",
        version: "0.18.0",
        role: Peer,
        build: Npm,
        scenarios: Scenarios::All,
        share: 1,
        pending: GRAPHILE,
        promises: "deletes; at least once, leased; no order",
        settings: "localQueue 500, concurrentJobs 24, completeJobBatchDelay 0, Node.js 22",
    },
    Contender {
        name: "pg-boss",
        title: "pg-boss (Node.js)",
        version: "12.35.0",
        role: Peer,
        build: Npm,
        scenarios: Scenarios::All,
        share: 1,
        pending: "SELECT count(*) FROM pgboss.job WHERE state < 'completed'",
        promises: "keeps; at least once, leased; no order",
        settings: "partitioned queue, 2 loops of fetch(5,000) + complete; `work` with NOTIFY where jobs come one by one, Node.js 22",
    },
    Contender {
        name: "river",
        title: "River (Go)",
        version: "0.51.0",
        role: Peer,
        build: Go,
        scenarios: Scenarios::All,
        share: 1,
        pending: "SELECT count(*) FROM river_job WHERE finalized_at IS NULL",
        promises: "keeps; at least once; no order",
        settings: "MaxWorkers 5,000, FetchCooldown 2 ms, FetchPollInterval 20 ms, InsertManyFast",
    },
    Contender {
        name: "apalis-postgres",
        title: "apalis-postgres (Rust)",
        version: "1.0.0",
        role: Peer,
        build: Cargo,
        scenarios: Scenarios::All,
        share: 1,
        pending: "SELECT count(*) FROM apalis.jobs WHERE status NOT IN ('Done', 'Killed')",
        promises: "keeps; at least once; no order",
        settings: "2 workers, batch_size 1,000, lock_tasks off, parallelize, poll interval 10 ms; 1 worker with NOTIFY where jobs come one by one; sqlx",
    },
    Contender {
        name: "awa",
        title: "awa (Rust)",
        version: "0.6.9",
        role: Peer,
        build: Cargo,
        scenarios: Scenarios::All,
        share: 4,
        pending: "SELECT count(*) FROM awa.jobs WHERE state NOT IN ('completed', 'failed', 'cancelled')",
        promises: "appends and rotates; at least once, leased; no order",
        settings: "queue storage, 256 workers, no deadline; 8 enqueue shards end to end; sqlx",
    },
    Contender {
        name: "gruelbox",
        title: "gruelbox transaction-outbox (Java)",
        version: "4.2.268",
        role: Peer,
        build: Maven,
        scenarios: Scenarios::All,
        share: 4,
        pending: "SELECT count(*) FROM txno_outbox WHERE NOT processed AND NOT blocked",
        promises: "deletes; at least once; no order",
        settings: "8 threads, flushBatchSize 4,096",
    },
];

/// The contenders with these names; all if there are none.
pub(crate) fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Contender>> {
    let all = || ALL.iter().map(|contender| contender.name).collect::<Vec<_>>().join(", ");
    for name in names {
        let is_known = ALL.iter().any(|contender| contender.name == name);
        anyhow::ensure!(is_known, "unknown contender {name}; there are {}", all());
    }
    Ok(ALL
        .iter()
        .filter(|contender| names.is_empty() || names.iter().any(|name| name == contender.name))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_peer_has_an_adapter_that_pins_the_version_in_the_table() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for contender in ALL.iter().filter(|contender| contender.role == Peer) {
            let manifest = match contender.build {
                Cargo => "Cargo.toml",
                Npm => "package.json",
                Go => "go.mod",
                Maven => "pom.xml",
                Ours => unreachable!("a peer has an adapter of its own"),
            };
            let text = fs::read_to_string(peers.join(contender.name).join(manifest)).expect(contender.name);
            assert!(text.contains(contender.version), "{}", contender.name);
        }
    }

    #[test]
    fn contenders_are_chosen_by_name() {
        assert_eq!(chosen(&[]).expect("all").len(), ALL.len());
        let river = chosen(&["river".to_owned()]).expect("river");
        assert_eq!(river.iter().map(|contender| contender.name).collect::<Vec<_>>(), ["river"]);
        assert!(chosen(&["kafka".to_owned()]).is_err());
    }

    #[test]
    fn lock_files_name_no_registry() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        for contender in ALL.iter().filter(|contender| contender.build == Npm) {
            let lock = fs::read_to_string(peers.join(contender.name).join("package-lock.json"))
                .expect(contender.name);
            assert!(!lock.contains("\"resolved\""), "{}", contender.name);
        }
    }
}
