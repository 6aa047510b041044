//! The progress bar of long commands.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Minimum number of rows for a progress bar. With fewer rows a command ends before a bar would help.
const WORTH_SHOWING: u64 = 2_000;

/// A progress bar on standard error, hidden if nobody watches.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(watched: bool, what: &'static str, total: u64) -> Self {
        let target = if watched && total >= WORTH_SHOWING {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template("{msg} {bar:40} {human_pos}/{human_len} {per_sec} {eta}");
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what);
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// Advances the bar by this many rows.
    pub fn add(&self, count: u64) {
        self.0.inc(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
