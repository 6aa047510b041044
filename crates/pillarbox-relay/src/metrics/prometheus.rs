//! Formats metrics in the Prometheus text format.

use std::fmt::{Display, Write as _};

use pillarbox::port::Cause;

use super::{COUNTERS, FAILURES, GAUGES, Metric, Reading};

/// The page of all metrics.
pub(crate) fn text(readings: &[Reading]) -> String {
    let mut page = String::new();
    for (index, metric) in COUNTERS.iter().enumerate() {
        family(&mut page, metric, "counter", readings, |reading| reading.counters[index]);
    }
    by_class(&mut page, readings);
    for (index, metric) in GAUGES.iter().enumerate() {
        family(&mut page, metric, "gauge", readings, |reading| reading.gauges[index]);
    }
    page
}

/// Failed requests, one series per class. Classes without failures are included, so that a rate starts at
/// zero.
fn by_class(page: &mut String, readings: &[Reading]) {
    let Metric { prometheus: name, help, .. } = FAILURES;
    // Writing to a string can't fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
    for reading in readings {
        let (source, table) = (escaped(&reading.source), escaped(&reading.table));
        for (class, count) in Cause::CLASSES.iter().zip(reading.failures) {
            let _ =
                writeln!(page, "{name}{{source=\"{source}\",table=\"{table}\",class=\"{class}\"}} {count}");
        }
    }
    page.push('\n');
}

fn family<V: Display>(
    page: &mut String,
    metric: &Metric,
    kind: &str,
    readings: &[Reading],
    value: impl Fn(&Reading) -> V,
) {
    let Metric { prometheus: name, help, .. } = metric;
    // Writing to a string can't fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for reading in readings {
        let (source, table) = (escaped(&reading.source), escaped(&reading.table));
        let _ = writeln!(page, "{name}{{source=\"{source}\",table=\"{table}\"}} {}", value(reading));
    }
    page.push('\n');
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// PBX-021
    #[test]
    fn names_of_sources_can_not_break_a_line() {
        let page = text(&[sample("a\"b\\c\nd")]);
        assert!(
            page.contains("pillarbox_delivered_total{source=\"a\\\"b\\\\c\\nd\",table=\"outbox_event\"} 5\n"),
            "{page}"
        );
        assert!(page.contains("# TYPE pillarbox_oldest_seconds gauge\n"), "{page}");
        assert!(page.contains("pillarbox_oldest_seconds{") && page.contains("} 1.5\n"), "{page}");
    }

    #[test]
    fn each_metric_is_described_once_whatever_the_number_of_tables() {
        let page = text(&[sample("a"), sample("b")]);
        assert_eq!(page.matches("# TYPE ").count(), COUNTERS.len() + GAUGES.len() + 1);
        assert_eq!(page.matches("pillarbox_endpoint_failures_total{").count(), 2 * Cause::CLASSES.len());
        assert_eq!(page.matches("pillarbox_dead_total{").count(), 2);
    }
}
