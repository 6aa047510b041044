//! The summary of a run.

use std::path::PathBuf;
use std::time::Duration;

use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::{Ink, Printable, count, fields};
use serde::Serialize;

use crate::ledger::OrderCounts;
use crate::plan::Plan;
use crate::receiver::Receiver;
use crate::story::{Ending, HEIR, VICTIM};

/// The summary of a run, for people and programs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) seed: u64,
    pub(crate) accounts: u32,
    #[serde(flatten)]
    pub(crate) counts: OrderCounts,
    pub(crate) dead: u64,
    pub(crate) replayed: u64,
    pub(crate) killed: &'static str,
    pub(crate) delivered_before_kill: u64,
    pub(crate) took_over_by: &'static str,
    pub(crate) took_over_after_ms: Option<u64>,
    /// Orders that `--serve` left in the outbox, such as those of a group that a user paused.
    pub(crate) waiting: u64,
    pub(crate) lost: u64,
    pub(crate) elapsed_ms: u64,
    /// The path of the database, if it is kept.
    pub(crate) database: Option<PathBuf>,
}

impl Summary {
    pub(crate) fn new(
        plan: &Plan,
        receiver: &Receiver,
        ending: &Ending,
        elapsed: Duration,
        database: Option<PathBuf>,
    ) -> Self {
        let (counts, missing) = receiver.ledger(|ledger| (ledger.counts(), ledger.lost()));
        Self {
            seed: plan.seed,
            accounts: plan.accounts,
            counts,
            dead: ending.dead,
            replayed: ending.replayed,
            killed: VICTIM,
            delivered_before_kill: ending.delivered_before_kill,
            took_over_by: HEIR,
            took_over_after_ms: ending.taken_over.map(|after| after.as_millis() as u64),
            waiting: ending.waiting.min(missing),
            lost: missing.saturating_sub(ending.waiting),
            elapsed_ms: elapsed.as_millis() as u64,
            database,
        }
    }

    /// Whether all guarantees were kept: nothing lost, nothing reordered, nothing from a rollback.
    pub(crate) fn is_perfect(&self) -> bool {
        let OrderCounts { order_violations, phantoms, .. } = self.counts;
        self.lost == 0 && order_violations == 0 && phantoms == 0
    }

    fn story(&self) -> Vec<(&'static str, String)> {
        let counts = &self.counts;
        let took_over = match self.took_over_after_ms {
            Some(ms) => {
                format!("{} took its accounts over {:.1} s later", self.took_over_by, ms as f64 / 1_000.0)
            }
            None => "it held nothing that was still to be delivered".to_owned(),
        };
        vec![
            (
                "written",
                format!(
                    "{} with their orders, a transaction each; {} rolled back",
                    counted(counts.written, "event"),
                    count(counts.rolled_back),
                ),
            ),
            (
                "delivered",
                format!(
                    "{} by HTTP, by two processes, in order within each of {} accounts",
                    count(counts.delivered),
                    self.accounts
                ),
            ),
            ("retried", format!("{} that the receiver refused at first", count(counts.retried))),
            (
                "killed",
                format!(
                    "{} by SIGKILL, after {} deliveries; {took_over}",
                    self.killed,
                    count(self.delivered_before_kill),
                ),
            ),
            (
                "dead",
                format!(
                    "{} that the receiver could not read; later orders of their accounts waited, others went on",
                    count(self.dead)
                ),
            ),
            ("replayed", format!("{} after the receiver was repaired", count(self.replayed))),
        ]
    }
}

impl Printable for Summary {
    fn for_people(&self, ink: Ink) -> String {
        let verdict = |name: &str, number: u64| {
            let line = format!("{name} {}", count(number));
            if number == 0 { ink.green(&line) } else { ink.red(&line) }
        };
        let counts = &self.counts;
        let doubles = match counts.duplicates {
            0 => "duplicates 0".to_owned(),
            number => format!(
                "duplicates {} (delivered, and the process was killed before it could say so)",
                count(number)
            ),
        };
        let mut lines = vec![
            fields(ink, &self.story()),
            String::new(),
            doubles,
            verdict("phantoms", counts.phantoms),
            verdict("order violations", counts.order_violations),
            verdict("lost", self.lost),
        ];
        if self.waiting > 0 {
            lines.insert(2, format!("waiting {} (held back in the outbox by hand)", count(self.waiting)));
        }
        if let Some(database) = &self.database {
            lines
                .push(format!("\nThe database is kept: pillarbox stats --url sqlite:{}", database.display()));
        }
        lines.join("\n")
    }
}
