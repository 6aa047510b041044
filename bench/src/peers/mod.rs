//! Pillarbox beside its peers: one server, every contender in turns, the floors beside them.

mod build;
mod contenders;
mod database;
mod measure;
mod process;
mod protocol;
mod report;
mod results;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use contenders::{Build, Contender, Scenarios};
use database::{Host, Ownership};
use measure::{Runner, Written};
use results::{Drain, EndToEnd, Entry, Extent, Latency, Results};

/// Set by the program that started the server for this run: we may change its settings.
pub const OWN_SERVER: &str = "PILLARBOX_BENCH_OWN_SERVER";

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What a published report needs.
    Full,
    /// At most 20 minutes.
    Quick,
    /// Whether the adapters work.
    Smoke,
}

/// Measures the contenders with these names, or all, and passes on each line of progress.
///
/// A run with all contenders that is no smoke test replaces `docs/performance`; any other writes beside the adapters, in
/// the target folder.
pub async fn run(url: &str, names: &[String], size: Size, say: impl Fn(String)) -> anyhow::Result<()> {
    let chosen = contenders::chosen(names)?;
    let extent = match size {
        Size::Full => Extent::FULL,
        Size::Quick => Extent::QUICK,
        Size::Smoke => Extent::SMOKE,
    };
    let ownership = if std::env::var_os(OWN_SERVER).is_some() { Ownership::Ours } else { Ownership::Theirs };
    let host = Host::open(url, ownership).await?;
    say(format!("PostgreSQL {}: {:?}", host.version, host.settings));
    let mut run = Run { not_run: Vec::new(), say: &say };
    let mut runners = run.build(&host, chosen);
    let entries = runners.iter().map(|runner| Entry {
        contender: runner.contender,
        drain: Drain::default(),
        latency: Latency::default(),
        end_to_end: Vec::new(),
    });
    let mut entries: Vec<Entry> = entries.collect();
    run.drains(&extent, &runners, &mut entries).await;
    runners.retain(|runner| runner.contender.scenarios != Scenarios::Drain);
    run.ends(&extent, &runners, &mut entries).await;
    runners.retain(|runner| runner.contender.scenarios == Scenarios::All);
    run.latencies(&extent, &runners, &mut entries).await;
    let results = Results {
        when: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        commit: commit(),
        machine: machine(),
        server: host.version.clone(),
        settings: host.settings.clone(),
        extent,
        entries,
        not_run: run.not_run,
    };
    for verdict in results.verdicts() {
        let (goal, met) = verdict.goal.text(verdict.reached.median());
        say(format!("{} | {} | {} | {goal} | {met}", verdict.what, verdict.against, verdict.reached.text()));
    }
    let folder = output(names.is_empty() && size != Size::Smoke)?;
    report::write(&results, &folder)?;
    say(format!("written to {}", folder.display()));
    Ok(())
}

fn output(is_whole: bool) -> anyhow::Result<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance");
    if is_whole { Ok(docs) } else { Ok(build::target()?.join("peers/performance")) }
}

fn commit() -> String {
    let git = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude=*"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let said = git.ok().filter(|output| output.status.success());
    said.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn machine() -> String {
    let read = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
        line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let kib: u64 = read("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let processors = thread::available_parallelism().map_or(0, usize::from);
    format!("{processors} processors, {}, {} GiB", read("/proc/cpuinfo", "model name"), kib >> 20)
}

/// The turn of each contender in a round: nobody always goes first.
fn turns(round: usize, contenders: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |turn| (turn + round) % contenders)
}

/// What the scenarios share.
struct Run<'a, S: Fn(String)> {
    not_run: Vec<String>,
    say: &'a S,
}

impl<S: Fn(String)> Run<'_, S> {
    fn build<'h>(&mut self, host: &'h Host, chosen: Vec<&'static Contender>) -> Vec<Runner<'h>> {
        let mut runners = Vec::new();
        for contender in chosen {
            if contender.build != Build::Ours {
                (self.say)(format!("build {}", contender.name));
            }
            match build::build(contender) {
                Ok(program) => runners.push(Runner { host, contender, program }),
                Err(why) => self.fail(contender, "build", &why),
            }
        }
        runners
    }

    fn fail(&mut self, contender: &Contender, what: &str, why: &anyhow::Error) {
        let line = format!("{}: {what}: {why}", contender.name);
        (self.say)(format!("not run: {line}"));
        self.not_run.push(line);
    }

    /// A contender that fails in one round is out of this scenario, with its earlier rounds.
    async fn drains(&mut self, extent: &Extent, runners: &[Runner<'_>], entries: &mut [Entry]) {
        let mut out = vec![false; runners.len()];
        for round in 0..extent.drain_rounds {
            for turn in turns(round, runners.len()).filter(|turn| !out[*turn]).collect::<Vec<_>>() {
                let contender = runners[turn].contender;
                let Some(entry) = of(entries, contender) else { continue };
                match runners[turn].drain(extent.jobs).await {
                    Ok(drained) => {
                        (self.say)(format!(
                            "drain {} {}: {:.0} jobs/s, server {:.1} µs, client {:.1} µs, WAL {:.0} B",
                            round + 1,
                            contender.name,
                            drained.rate,
                            drained.server_us,
                            drained.client_us,
                            drained.wal_bytes
                        ));
                        entry.drain.push(drained);
                    }
                    Err(why) => {
                        out[turn] = true;
                        entry.drain = Drain::default();
                        self.fail(contender, "drain", &why);
                    }
                }
            }
        }
    }

    async fn latencies(&mut self, extent: &Extent, runners: &[Runner<'_>], entries: &mut [Entry]) {
        let mut out = vec![false; runners.len()];
        for round in 0..extent.other_rounds {
            for turn in turns(round, runners.len()).filter(|turn| !out[*turn]).collect::<Vec<_>>() {
                let contender = runners[turn].contender;
                let Some(entry) = of(entries, contender) else { continue };
                match runners[turn].latency(extent.latencies).await {
                    Ok(latencies) => {
                        let (p50, p99) = (latencies.median(), latencies.quantile(0.99));
                        (self.say)(format!(
                            "latency {} {}: p50 {p50:.0} µs, p99 {p99:.0} µs",
                            round + 1,
                            contender.name
                        ));
                        entry.latency.push(&latencies);
                    }
                    Err(why) => {
                        out[turn] = true;
                        entry.latency = Latency::default();
                        self.fail(contender, "latency", &why);
                    }
                }
            }
        }
    }

    async fn ends(&mut self, extent: &Extent, runners: &[Runner<'_>], entries: &mut [Entry]) {
        for writers in extent.writers.iter().copied() {
            let mut out = vec![false; runners.len()];
            let mut measured = vec![EndToEnd { writers, ..EndToEnd::default() }; runners.len()];
            for round in 0..extent.other_rounds {
                // Our contenders and the floor are one program with one driver: they share their business alone.
                let mut shared = None;
                for turn in turns(round, runners.len()).filter(|turn| !out[*turn]).collect::<Vec<_>>() {
                    let runner = &runners[turn];
                    match end_to_end(runner, extent, writers, &mut shared).await {
                        Ok((written, business)) => {
                            (self.say)(format!(
                                "end to end {} {}: {writers} writers {:.0}/s of {:.0}/s, last after {:.0} ms",
                                round + 1,
                                runner.contender.name,
                                written.rate,
                                business.rate,
                                written.tail_ms
                            ));
                            measured[turn].push(written, business);
                        }
                        Err(why) => {
                            out[turn] = true;
                            self.fail(runner.contender, &format!("end to end, {writers} writers"), &why);
                        }
                    }
                }
            }
            for (turn, measured) in measured.into_iter().enumerate().filter(|(turn, _)| !out[*turn]) {
                if let Some(entry) = of(entries, runners[turn].contender) {
                    entry.end_to_end.push(measured);
                }
            }
        }
    }
}

async fn end_to_end(
    runner: &Runner<'_>,
    extent: &Extent,
    writers: usize,
    shared: &mut Option<Written>,
) -> anyhow::Result<(Written, Written)> {
    let business = match *shared {
        Some(business) if runner.contender.build == Build::Ours => business,
        _ => runner.business(writers, extent.window).await?,
    };
    if runner.contender.build == Build::Ours {
        *shared = Some(business);
    }
    Ok((runner.end_to_end(writers, extent.window).await?, business))
}

fn of<'e>(entries: &'e mut [Entry], contender: &Contender) -> Option<&'e mut Entry> {
    entries.iter_mut().find(|entry| entry.contender.name == contender.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_has_a_turn_in_each_round_and_goes_first_once() {
        assert_eq!(turns(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(turns(1, 3).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turns(5, 3).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
