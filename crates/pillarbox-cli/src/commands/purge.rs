//! `purge`: deletes rows that have been done or dead for longer than a given time.

use std::time::Duration;

use clap::{Args, ValueEnum};
use pillarbox::model::Status;
use pillarbox::port::{self, PurgeStatus, Select, Table};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::counted;
use pillarbox_terminal::output::span;

use super::Session;
use crate::bulk::{Changed, Consent, Sentence, in_batches};
use crate::parse;
use crate::target::database_now;

/// Arguments of `purge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pillarbox purge --older-than 7d --yes
  pillarbox purge --older-than 30d --status dead --dry-run")]
pub(crate) struct Purge {
    /// Delete rows that ended longer ago than this, by the database's clock
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    older_than: Duration,
    /// Which rows to delete
    #[arg(long, value_name = "STATUS", default_value = "done")]
    status: Ended,
    #[command(flatten)]
    consent: Consent,
}

/// The status of the rows to delete.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Ended {
    // Delivered
    Done,
    // Given up
    Dead,
}

impl Ended {
    fn what(self) -> &'static str {
        match self {
            Self::Done => "done event",
            Self::Dead => "dead event",
        }
    }
}

impl Purge {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let store = session.store().await?;
        let expected = self.count(&*store).await?;
        let sentence = Sentence { did: "purged", what: self.status.what() };
        let changed = |dry_run, count| Changed { action: "purge", dry_run, count, sentence };
        if self.consent.dry_run || expected == 0 {
            return session.output.answer(&changed(self.consent.dry_run, expected));
        }
        let events = counted(expected, self.status.what());
        let question =
            format!("delete {events} older than {} from {}?", span(self.older_than), store.facts().name);
        self.consent.obtain(session.output, &question)?;
        let progress = session.output.progress("purging", expected);
        let purged =
            in_batches(&progress, async |limit| store.admin().purge(self.batch(limit)).await).await?;
        drop(progress);
        session.output.answer(&changed(false, purged))
    }

    async fn count(&self, store: &dyn Table) -> CommandResult<u64> {
        let now = database_now(store).await?;
        let status = match self.status {
            Ended::Done => Status::Done,
            Ended::Dead => Status::Dead,
        };
        let before = now.saturating_sub(self.older_than).unwrap_or(now);
        let select = Select { statuses: vec![status], ended_before: Some(before), ..Select::default() };
        Ok(store.admin().count(select).await?)
    }

    fn batch(&self, limit: usize) -> port::Purge {
        let status = match self.status {
            Ended::Done => PurgeStatus::Done,
            Ended::Dead => PurgeStatus::Dead,
        };
        port::Purge { status, older_than: self.older_than, limit, now: None }
    }
}
