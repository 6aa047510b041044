//! `stats`: the state of an outbox on one screen.

mod report;

use std::time::Duration;

use clap::Args;
use pillarbox::port::Table;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::Reader;
use tokio::time::{MissedTickBehavior, interval};

use super::Session;
use crate::parse;
use report::Report;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox stats
  pillarbox stats --watch --json | jq .pending.oldest_ms")]
pub(crate) struct Stats {
    /// Repeat until Ctrl-C; with --json one document per line
    #[arg(long)]
    watch: bool,
    /// Interval of --watch
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse::duration, requires = "watch")]
    interval: Duration,
}

impl Stats {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        if self.interval < SHORTEST_INTERVAL {
            return Err(CommandError::usage("--interval is shorter than 100ms"));
        }
        let store = session.store().await?;
        if !self.watch {
            return session.output.answer(&Report::read(&*store).await?);
        }
        tokio::select! {
            ended = self.watch(session, &*store) => ended,
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    }

    async fn watch(&self, session: &Session, store: &dyn Table) -> CommandResult {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let report = Report::read(store).await?;
            if session.output.reader() == Reader::People {
                session.output.start_screen()?;
            }
            session.output.answer(&report)?;
        }
    }
}
