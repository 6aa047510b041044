//! `queue`: the work queue for scripts and for workers in any language.

mod claim;
mod document;
mod enqueue;
mod settle;
mod work;

use clap::{Args, Subcommand};
use pillarbox_terminal::error::CommandResult;

use super::Session;
use crate::bulk::{BATCH, Changed, Sentence};
use claim::Claim;
use enqueue::Enqueue;
use settle::{Abandon, Ack, Extend, Fail};
use work::Work;

/// Subcommands of `queue`.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
    /// Enqueue a message and print its id
    #[command(after_help = "\
Examples:
  pillarbox queue enqueue --topic mail.send --payload '{\"to\":\"ada\"}' --correlation-id order-7
  pillarbox queue enqueue --topic report.build --payload @report.json --due 2h --message-id report-7
  pillarbox queue enqueue --topic extract --payload - --join \"$JOIN\" < page.json")]
    Enqueue(Enqueue),
    /// Claim messages that are due and print them in full
    #[command(after_help = "\
Examples:
  owner=$(uuidgen)
  pillarbox queue claim --owner $owner --lease 30s --limit 10 --json
  pillarbox queue claim --owner $owner --topic mail.send --topic mail.retry --wait 20s

They are this owner's alone until the lease ends, by the database's clock. Each is then settled by its ITEM, ID@TOKEN.
An expired message goes dead and is not printed. An empty result is not an error.")]
    Claim(Claim),
    /// Settle claimed messages as done
    #[command(after_help = settle::after_help!("ack", ""))]
    Ack(Ack),
    /// Release claimed messages for a retry after 2, 4, 8 … up to 60 s, or after --delay
    #[command(after_help = settle::after_help!("abandon", " --error 'no answer' --delay 5m"))]
    Abandon(Abandon),
    /// Settle claimed messages as dead
    #[command(after_help = settle::after_help!("fail", " --error 'no such address'"))]
    Fail(Fail),
    /// Extend the lease of claimed messages
    #[command(after_help = settle::after_help!("extend", " --lease 5m"))]
    Extend(Extend),
    /// Release messages whose lease has expired; a claim does so too
    #[command(after_help = "Example:\n  pillarbox queue reap")]
    Reap(Reap),
    /// Run a command for each message until interrupted
    #[command(after_help = work::AFTER_HELP)]
    Work(Work),
}

impl Queue {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Enqueue(enqueue) => enqueue.run(session).await,
            Self::Claim(claim) => claim.run(session).await,
            Self::Ack(ack) => ack.run(session).await,
            Self::Abandon(abandon) => abandon.run(session).await,
            Self::Fail(fail) => fail.run(session).await,
            Self::Extend(extend) => extend.run(session).await,
            Self::Reap(reap) => reap.run(session).await,
            Self::Work(work) => work.run(session).await,
        }
    }
}

/// Arguments of `queue reap`.
#[derive(Debug, Args)]
pub(crate) struct Reap {
    /// Release at most this many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Reap {
    async fn run(self, session: &Session) -> CommandResult {
        let queue = session.queue().await?;
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut count = 0;
        loop {
            let most = (limit - count).min(BATCH as u64);
            let reaped = queue.reap(most as usize).await?;
            count += reaped;
            if reaped < most || count >= limit {
                break;
            }
        }
        let sentence = Sentence { did: "freed", what: "message" };
        session.output.answer(&Changed { action: "reap", dry_run: false, count, sentence })
    }
}
