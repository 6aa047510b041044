//! Shows the progress of the demo: bars on a terminal, otherwise lines, and nothing for programs.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pillarbox_terminal::output::{Output, Reader, count};

use crate::ledger::OrderCounts;

/// Interval between lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The progress display.
pub(crate) struct Screen {
    output: Output,
    began: Instant,
    total: u64,
    view: View,
}

enum View {
    Bars { all: MultiProgress, written: ProgressBar, delivered: ProgressBar, rest: ProgressBar },
    Lines { last: Instant },
    Nothing,
}

/// The state that the display shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) counts: OrderCounts,
    pub(crate) dead: u64,
    pub(crate) replayed: u64,
}

impl Screen {
    pub(crate) fn new(output: Output, total: u64) -> Self {
        let view = match output.reader() {
            Reader::Programs => View::Nothing,
            Reader::People if io::stderr().is_terminal() => bars(total),
            Reader::People => View::Lines { last: Instant::now() },
        };
        Self { output, began: Instant::now(), total, view }
    }

    /// Updates the display.
    pub(crate) fn show(&mut self, state: State) {
        let text = rest_of(state);
        match &mut self.view {
            View::Bars { written, delivered, rest, .. } => {
                for (bar, number) in [(written, state.counts.written), (delivered, state.counts.delivered)] {
                    bar.set_length(self.total.max(state.counts.written));
                    bar.set_position(number);
                }
                rest.set_message(text);
            }
            View::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let OrderCounts { written, delivered, .. } = state.counts;
                let total = count(self.total.max(written));
                self.tell(&format!(
                    "written {} of {total}, delivered {}, {text}",
                    count(written),
                    count(delivered)
                ));
            }
            View::Lines { .. } | View::Nothing => {}
        }
    }

    /// Prints a line about an event of the story.
    pub(crate) fn tell(&self, what: &str) {
        let line = format!("{:>5.1}s  {what}", self.began.elapsed().as_secs_f64());
        match &self.view {
            View::Bars { all, .. } => {
                // Fails only if the terminal is gone, so nobody misses the line.
                let _ = all.println(line);
            }
            View::Lines { .. } => self.output.note(&line),
            View::Nothing => {}
        }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let View::Bars { all, .. } = &self.view {
            let _ = all.clear();
        }
    }
}

fn bars(total: u64) -> View {
    let all = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:>10} {bar:40.green/dim} {human_pos} of {human_len}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━━─");
    let bar = |name| all.add(ProgressBar::new(total).with_style(style.clone()).with_prefix(name));
    let (written, delivered) = (bar("written"), bar("delivered"));
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let rest = all.add(ProgressBar::new_spinner().with_style(style));
    View::Bars { all, written, delivered, rest }
}

fn rest_of(state: State) -> String {
    let State { counts, dead, replayed } = state;
    let retried = counts.retried;
    format!("retried {}, dead {}, replayed {}", count(retried), count(dead), count(replayed))
}
