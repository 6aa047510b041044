//! `stats`: the state of an outbox on one screen.

mod report;

use std::time::Duration;

use clap::Args;
use pillarbox::port::Store;
use pillarbox_terminal::failure::{Failure, Outcome};
use pillarbox_terminal::output::Reader;
use tokio::time::{MissedTickBehavior, interval};

use super::Session;
use crate::form;
use report::Report;

const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// How to look.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox stats
  pillarbox stats --watch --json | jq .pending.oldest_ms")]
pub(crate) struct Stats {
    /// Show it again and again, until Ctrl-C; with --json one document a line
    #[arg(long)]
    watch: bool,
    /// How often, with --watch
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = form::duration, requires = "watch")]
    interval: Duration,
}

impl Stats {
    pub(crate) async fn run(self, session: &Session) -> Outcome {
        if self.interval < SHORTEST_INTERVAL {
            return Err(Failure::usage("--interval is shorter than 100ms"));
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

    async fn watch(&self, session: &Session, store: &dyn Store) -> Outcome {
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
