//! What was measured, contender by contender, and what it says about the goals.

use std::time::Duration;

use super::contenders::{Contender, Role};
use super::measure::{Drained, Written};
use crate::figure::{Goal, Samples};

/// The rounds of the drain, for each job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drain {
    pub(crate) rate: Samples,
    pub(crate) server_us: Samples,
    pub(crate) client_us: Samples,
    pub(crate) wal_bytes: Samples,
}

impl Drain {
    pub(crate) fn push(&mut self, drained: Drained) {
        self.rate.push(drained.rate);
        self.server_us.push(drained.server_us);
        self.client_us.push(drained.client_us);
        self.wal_bytes.push(drained.wal_bytes);
    }
}

/// The rounds of the latency in microseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latency {
    pub(crate) p50: Samples,
    pub(crate) p99: Samples,
}

impl Latency {
    pub(crate) fn push(&mut self, round: &Samples) {
        self.p50.push(round.median());
        self.p99.push(round.quantile(0.99));
    }
}

/// The rounds of the end-to-end scenario with one number of writers.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndToEnd {
    pub(crate) writers: usize,
    pub(crate) rate: Samples,
    /// The same program without jobs.
    pub(crate) business: Samples,
    pub(crate) tail_ms: Samples,
}

impl EndToEnd {
    pub(crate) fn push(&mut self, written: Written, business: Written) {
        self.rate.push(written.rate);
        self.tail_ms.push(written.tail_ms);
        self.business.push(business.rate);
    }

    /// The transactions with a job, as a share of those without.
    pub(crate) fn share(&self) -> Samples {
        self.rate.over(&self.business)
    }
}

/// Everything about one contender.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) contender: &'static Contender,
    pub(crate) drain: Drain,
    pub(crate) latency: Latency,
    /// One for each number of writers.
    pub(crate) end_to_end: Vec<EndToEnd>,
}

/// How large everything was.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) name: &'static str,
    pub(crate) jobs: usize,
    pub(crate) drain_rounds: usize,
    pub(crate) other_rounds: usize,
    pub(crate) latencies: usize,
    pub(crate) writers: &'static [usize],
    pub(crate) window: Duration,
}

impl Extent {
    pub(crate) const FULL: Self = Self {
        name: "full",
        jobs: 200_000,
        drain_rounds: 5,
        other_rounds: 3,
        latencies: 500,
        writers: &[8, 32],
        window: Duration::from_secs(6),
    };
    pub(crate) const QUICK: Self = Self {
        name: "quick",
        jobs: 20_000,
        drain_rounds: 3,
        other_rounds: 2,
        latencies: 150,
        writers: &[8],
        window: Duration::from_secs(2),
    };
    /// To see whether the adapters work; its figures mean nothing.
    pub(crate) const SMOKE: Self = Self {
        name: "smoke",
        jobs: 1_000,
        drain_rounds: 1,
        other_rounds: 1,
        latencies: 10,
        writers: &[2],
        window: Duration::from_millis(300),
    };
}

/// The machine, the server and all contenders.
pub(crate) struct Results {
    pub(crate) when: String,
    pub(crate) commit: String,
    pub(crate) machine: String,
    pub(crate) server: String,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) extent: Extent,
    pub(crate) entries: Vec<Entry>,
    /// What could not run, and why.
    pub(crate) not_run: Vec<String>,
}

/// One of our figures against another one, or against a bound of its own.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) against: String,
    pub(crate) reached: Samples,
    pub(crate) goal: Goal,
}

impl Verdict {
    pub(crate) fn met(&self) -> &'static str {
        self.goal.text(self.reached.median()).1
    }
}

/// Which of two medians is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Higher,
    Lower,
}

type Figure = fn(&Entry) -> Samples;
/// What is compared, our contender, its figure, the other side with its name, and the goal.
type Comparison<'a> = (&'a str, &'a str, Figure, Option<(String, Samples)>, Goal);

fn rate(entry: &Entry) -> Samples {
    entry.drain.rate.clone()
}

fn server_us(entry: &Entry) -> Samples {
    entry.drain.server_us.clone()
}

fn p50(entry: &Entry) -> Samples {
    entry.latency.p50.clone()
}

fn share(entry: &Entry) -> Samples {
    entry.end_to_end.first().map(EndToEnd::share).unwrap_or_default()
}

impl Results {
    fn entry(&self, name: &str, figure: Figure) -> Option<(String, Samples)> {
        let entry = self.entries.iter().find(|entry| entry.contender.name == name)?;
        let samples = figure(entry);
        (!samples.is_empty()).then(|| (entry.contender.title.to_owned(), samples))
    }

    fn best_peer(&self, figure: Figure, better: Better) -> Option<(String, Samples)> {
        let peers = self.entries.iter().filter(|entry| entry.contender.role == Role::Peer);
        let measured =
            peers.map(|entry| (entry.contender.title, figure(entry))).filter(|(_, of)| !of.is_empty());
        let order = |a: &(&str, Samples), b: &(&str, Samples)| a.1.median().total_cmp(&b.1.median());
        let best = if better == Better::Higher { measured.max_by(order) } else { measured.min_by(order) };
        best.map(|(title, samples)| (format!("best peer: {title}"), samples))
    }

    /// The goals that can be judged with what was measured.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        use Better::{Higher, Lower};
        let peer = |figure, better| self.best_peer(figure, better);
        let floor = |name| self.entry(name, rate);
        let lines: [Comparison<'_>; 8] = [
            ("drain", "outbox-delete", rate, peer(rate, Higher), Goal::AtLeast(5.0)),
            ("drain", "outbox-delete", rate, floor("floor-read"), Goal::AtLeast(0.85)),
            (
                "end to end, share of business alone",
                "outbox-delete",
                share,
                peer(share, Higher),
                Goal::AtLeast(2.0),
            ),
            ("server CPU of a job", "outbox-delete", server_us, peer(server_us, Lower), Goal::AtMost(0.25)),
            ("latency p50", "outbox-delete", p50, peer(p50, Lower), Goal::AtMost(0.01)),
            ("drain", "queue-delete", rate, peer(rate, Higher), Goal::AtLeast(1.5)),
            ("drain", "queue-delete", rate, floor("floor-lease"), Goal::AtLeast(0.75)),
            ("server CPU of a job", "queue-delete", server_us, peer(server_us, Lower), Goal::AtMost(1.0)),
        ];
        let mut verdicts = Vec::new();
        for (what, name, figure, base, goal) in lines {
            if let (Some((title, ours)), Some((against, base))) = (self.entry(name, figure), base) {
                let reached = ours.over(&base);
                verdicts.push(Verdict { what: format!("{title}: {what}"), against, reached, goal });
            }
        }
        if let Some((title, reached)) = self.entry("queue-delete", p50) {
            let what = format!("{title}: latency p50 in µs");
            verdicts.push(Verdict { what, against: String::new(), reached, goal: Goal::AtMost(500.0) });
        }
        verdicts
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::peers::contenders::ALL;

    pub(crate) fn entry(name: &str, rates: [f64; 2], server_us: f64) -> Entry {
        let contender = ALL.iter().find(|contender| contender.name == name).expect(name);
        let mut drain = Drain::default();
        for rate in rates {
            drain.push(Drained { rate, server_us, client_us: 5.0, wal_bytes: 700.0 });
        }
        let mut latency = Latency::default();
        let mut round = Samples::default();
        round.push(100.0);
        latency.push(&round);
        let mut end_to_end = EndToEnd { writers: 8, ..EndToEnd::default() };
        let written = |rate| Written { rate, tail_ms: 1.0 };
        end_to_end.push(written(600.0), written(1_000.0));
        Entry { contender, drain, latency, end_to_end: vec![end_to_end] }
    }

    pub(crate) fn results(entries: Vec<Entry>) -> Results {
        Results {
            when: "2026-01-01".to_owned(),
            commit: "abc".to_owned(),
            machine: "2 processors".to_owned(),
            server: "15.1".to_owned(),
            settings: vec![("fsync".to_owned(), "on".to_owned())],
            extent: Extent::QUICK,
            entries,
            not_run: vec!["gruelbox: mvn does not start".to_owned()],
        }
    }

    #[test]
    fn goals_are_judged_against_the_best_peer_round_by_round() {
        let results = results(vec![
            entry("outbox-delete", [100_000.0, 120_000.0], 8.0),
            entry("river", [10_000.0, 12_000.0], 80.0),
            entry("pg-boss", [30_000.0, 20_000.0], 40.0),
        ]);
        let verdicts = results.verdicts();
        let drain = &verdicts[0];
        assert_eq!((drain.against.as_str(), drain.met()), ("best peer: pg-boss (Node.js)", "met"));
        assert_eq!(drain.reached.spread(), (100.0 / 30.0, 6.0));
        let cpu = verdicts.iter().find(|verdict| verdict.what.contains("CPU")).expect("a verdict on CPU");
        assert_eq!((cpu.reached.median(), cpu.met()), (0.2, "met"));
        let latency = verdicts.iter().find(|verdict| verdict.what.contains("latency")).expect("on latency");
        assert_eq!(latency.met(), "MISSED");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        assert!(results(vec![entry("river", [1.0, 2.0], 3.0)]).verdicts().is_empty());
    }
}
