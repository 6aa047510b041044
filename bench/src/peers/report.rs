//! The results as JSON, as a page in Markdown and as plots.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::contenders::{Contender, Role};
use super::results::{Entry, Results};
use crate::figure::Samples;
use crate::svg::{self, Bar, Colour, Scale};

/// Writes all files into a folder.
pub(crate) fn write(results: &Results, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("peers.json"), format!("{:#}\n", data(results)))?;
    fs::write(folder.join("peers.md"), page(results))?;
    for (name, plot) in plots(results) {
        fs::write(folder.join(name), plot)?;
    }
    Ok(())
}

fn values(samples: &Samples) -> Value {
    let rounded = samples.rounds().iter().map(|value| (value * 1000.0).round() / 1000.0);
    rounded.collect()
}

fn data(results: &Results) -> Value {
    let entries = results.entries.iter().map(|entry| {
        let Contender { name, title, version, promises, settings, .. } = entry.contender;
        let end_to_end = entry.end_to_end.iter().map(|of| {
            json!({ "writers": of.writers, "transactions_per_second": values(&of.rate),
                "business_per_second": values(&of.business), "last_handled_after_ms": values(&of.tail_ms) })
        });
        json!({ "name": name, "title": title, "version": version, "promises": promises, "settings": settings,
            "drain": { "jobs_per_second": values(&entry.drain.rate), "server_us": values(&entry.drain.server_us),
                "client_us": values(&entry.drain.client_us), "wal_bytes": values(&entry.drain.wal_bytes) },
            "latency_us": { "p50": values(&entry.latency.p50), "p99": values(&entry.latency.p99) },
            "end_to_end": end_to_end.collect::<Vec<_>>() })
    });
    let goals = results.verdicts().into_iter().map(|verdict| {
        json!({ "what": verdict.what, "against": verdict.against, "reached": values(&verdict.reached),
            "goal": verdict.goal.text(0.0).0, "verdict": verdict.met() })
    });
    let settings: serde_json::Map<_, _> =
        results.settings.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({ "when": results.when, "commit": results.commit, "machine": results.machine,
        "postgresql": results.server, "settings": settings, "run": results.extent.name, "jobs": results.extent.jobs,
        "contenders": entries.collect::<Vec<_>>(), "goals": goals.collect::<Vec<_>>(), "not_run": results.not_run })
}

/// The page, one sentence on each line.
fn page(results: &Results) -> String {
    let mut page = conditions(results);
    page.push_str("\n## Goals\n\nRatios are the median of the rounds' own ratios (lowest to highest).\n\n");
    page.push_str("| what | against | reached | goal | |\n|---|---|---|---|---|\n");
    for verdict in results.verdicts() {
        let (goal, met) = verdict.goal.text(verdict.reached.median());
        line(&mut page, &[&verdict.what, &verdict.against, &verdict.reached.text(), &goal, met]);
    }
    drain(&mut page, results);
    end_to_end(&mut page, results);
    latency(&mut page, results);
    page.push_str("\n## Contenders\n\n| contender | version | promises | settings |\n|---|---|---|---|\n");
    for Entry { contender, .. } in &results.entries {
        line(&mut page, &[contender.title, contender.version, contender.promises, contender.settings]);
    }
    if !results.not_run.is_empty() {
        page.push_str("\n## Not run\n\n");
        results.not_run.iter().for_each(|why| page.push_str(&format!("- not run: {why}\n")));
    }
    page
}

fn conditions(results: &Results) -> String {
    let extent = &results.extent;
    let settings: Vec<String> =
        results.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let writers: Vec<String> = extent.writers.iter().map(ToString::to_string).collect();
    format!(
        "# Pillarbox beside its peers\n\n\
         Written by `cargo xtask bench peers`; [README](README.md) says how to repeat it and what the figures mean.\n\
         Client and server share one machine, so a figure says more beside another one than by itself.\n\n\
         | | |\n|---|---|\n| when | {} |\n| Pillarbox | {} |\n| machine | {} |\n| PostgreSQL | {} |\n| settings | {} |\n\
         | run | {}: {} jobs, {} rounds of the drain, {} of the others in turns, {} latencies, {} writers for {} s |\n\n\
         Figures are the median of the rounds, with the lowest and the highest.\n",
        results.when,
        results.commit,
        results.machine,
        results.server,
        settings.join(", "),
        extent.name,
        extent.jobs,
        extent.drain_rounds,
        extent.other_rounds,
        extent.latencies,
        writers.join(" and "),
        extent.window.as_secs_f64(),
    )
}

fn line(page: &mut String, cells: &[&str]) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn drain(page: &mut String, results: &Results) {
    page.push_str(
        "\n## Drain of waiting jobs\n\n![Drain](peers-drain.svg)\n\n![Server CPU](peers-cpu.svg)\n\n",
    );
    page.push_str("| contender | jobs | jobs/s | server CPU µs/job | client CPU µs/job | WAL B/job |\n|---|---|---|---|---|---|\n");
    for Entry { contender, drain, .. } in results.entries.iter().filter(|entry| !entry.drain.rate.is_empty())
    {
        let jobs = (results.extent.jobs / contender.share).to_string();
        let figures = [&drain.rate, &drain.server_us, &drain.client_us, &drain.wal_bytes].map(Samples::text);
        line(page, &[contender.title, &jobs, &figures[0], &figures[1], &figures[2], &figures[3]]);
    }
}

fn end_to_end(page: &mut String, results: &Results) {
    page.push_str("\n## End to end\n\n");
    page.push_str("One order and one job in a transaction, with the consumer in the same process.\n\n");
    page.push_str("![End to end](peers-end-to-end.svg)\n\n");
    page.push_str("| contender | writers | transactions/s | its business alone/s | share | last job handled after ms |\n|---|---|---|---|---|---|\n");
    for entry in &results.entries {
        for of in entry.end_to_end.iter().filter(|of| !of.rate.is_empty()) {
            let figures = [&of.rate, &of.business, &of.share(), &of.tail_ms].map(Samples::text);
            let writers = of.writers.to_string();
            line(
                page,
                &[entry.contender.title, &writers, &figures[0], &figures[1], &figures[2], &figures[3]],
            );
        }
    }
}

fn latency(page: &mut String, results: &Results) {
    page.push_str("\n## Latency\n\n");
    page.push_str(
        "From the answer to a commit to the call of the handler in the same process, one job at a time.\n\n",
    );
    page.push_str("![Latency](peers-latency.svg)\n\n| contender | p50 µs | p99 µs |\n|---|---|---|\n");
    for Entry { contender, latency, .. } in
        results.entries.iter().filter(|entry| !entry.latency.p50.is_empty())
    {
        line(page, &[contender.title, &latency.p50.text(), &latency.p99.text()]);
    }
}

type Figure = fn(&Entry) -> Samples;

fn plots(results: &Results) -> Vec<(&'static str, String)> {
    let share =
        |entry: &Entry| entry.end_to_end.first().map(super::results::EndToEnd::share).unwrap_or_default();
    let plots: [(&str, &str, &str, Scale, Figure); 4] = [
        (
            "peers-drain.svg",
            "Drain of waiting jobs",
            "jobs per second; more is better",
            Scale::Linear,
            |entry| entry.drain.rate.clone(),
        ),
        (
            "peers-cpu.svg",
            "Server CPU of a drained job",
            "microseconds; less is better; logarithmic",
            Scale::Logarithmic,
            |entry| entry.drain.server_us.clone(),
        ),
        (
            "peers-end-to-end.svg",
            "Business transactions with a job",
            "share of the same transactions without; more is better",
            Scale::Linear,
            share,
        ),
        (
            "peers-latency.svg",
            "From commit to handler, p50",
            "microseconds; less is better; logarithmic",
            Scale::Logarithmic,
            |entry| entry.latency.p50.clone(),
        ),
    ];
    plots
        .into_iter()
        .map(|(name, title, unit, scale, figure)| {
            (name, svg::bars(title, unit, scale, &bars(results, figure)))
        })
        .collect()
}

fn bars(results: &Results, figure: Figure) -> Vec<Bar> {
    let measured = results.entries.iter().map(|entry| (entry.contender, figure(entry)));
    let bar = |(contender, samples): (&'static Contender, Samples)| {
        let (low, high) = samples.spread();
        let colour = match contender.role {
            Role::Pillarbox => Colour::Ours,
            Role::Peer => Colour::Peer,
            Role::Floor => Colour::Floor,
        };
        let (label, text) = (contender.title.to_owned(), samples.text());
        Bar { label, colour, value: samples.median(), low, high, text }
    };
    measured.filter(|(_, samples)| !samples.is_empty()).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{entry, results};
    use super::*;

    fn some() -> Results {
        results(vec![
            entry("outbox-delete", [100_000.0, 120_000.0], 8.0),
            entry("river", [10_000.0, 12_000.0], 80.0),
        ])
    }

    #[test]
    fn the_page_has_every_contender_the_settings_and_what_was_not_run() {
        let page = page(&some());
        assert!(
            page.contains("| River (Go) | 20000 | 12000 (10000 to 12000) | 80.0 (80.0 to 80.0) |"),
            "{page}"
        );
        assert!(page.contains("| settings | fsync on |"), "{page}");
        assert!(page.contains("- not run: gruelbox: mvn does not start\n"), "{page}");
        assert!(page.contains("| best peer: River (Go) | 10.0 (10.0 to 10.0) | >= 5 | met |"), "{page}");
    }

    #[test]
    fn the_data_has_every_round() {
        let data = data(&some());
        assert_eq!(data["contenders"][1]["drain"]["jobs_per_second"], json!([10_000.0, 12_000.0]));
        assert_eq!(data["settings"]["fsync"], "on");
        assert_eq!(data["goals"][0]["verdict"], "met");
    }

    #[test]
    fn there_is_a_plot_of_each_figure_with_a_bar_for_each_contender() {
        let plots = plots(&some());
        assert_eq!(plots.len(), 4);
        assert!(plots.iter().all(|(_, plot)| plot.matches("<rect").count() == 2));
    }

    #[test]
    fn all_files_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        write(&some(), folder.path()).expect("files");
        let page = fs::read_to_string(folder.path().join("peers.md")).expect("the page");
        let named = page.split('(').filter_map(|rest| rest.split_once(".svg)")).map(|(name, _)| name);
        assert!(named.clone().count() == 4);
        named.for_each(|name| assert!(folder.path().join(format!("{name}.svg")).is_file(), "{name}"));
    }
}
