//! `queue claim`: claims messages for an owner and prints them in full.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use pillarbox::Queue;
use pillarbox::model::OwnerId;
use pillarbox::port::{Store, Wakeups};
use pillarbox::queue::Message;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Ink, Printable, bytes, fields};
use pillarbox_terminal::printable::{lines, one_line};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::document::MessageDocument;
use crate::commands::Session;
use crate::parse;
use crate::target::database_now;
use crate::view::Content;

/// Time between two claims while none is due. It finds delayed messages too, which no wake-up announces.
const POLL: Duration = Duration::from_millis(500);

/// Arguments of `queue claim`.
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// Owner of the claim: a UUID that the worker keeps
    #[arg(long, value_name = "UUID", value_parser = parse::owner)]
    owner: OwnerId,
    /// Length of the lease
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
    /// Only messages of this topic; may be repeated
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Wait this long for a message if none is due
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse::duration)]
    wait: Duration,
    /// Claim at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl Claim {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let queue = session.queue().await?;
        let mut wakeups = if self.wait.is_zero() { None } else { queue.store().wakeups() };
        let end = Instant::now() + self.wait;
        let messages = loop {
            let claimed = self.claim(&queue).await?;
            if !claimed.is_empty() || Instant::now() >= end {
                break claimed;
            }
            let next = end.min(Instant::now() + POLL);
            let _ = timeout_at(next, woken(&mut wakeups)).await;
        };
        session.output.answer(&Claimed(messages))
    }

    async fn claim(&self, queue: &Queue<Arc<dyn Store>>) -> CommandResult<Vec<ClaimedMessage>> {
        // Read before the claim, so that no lease expires earlier than printed.
        let now = database_now(&**queue.store()).await?;
        let until = now.saturating_add(self.lease).unwrap_or(Timestamp::MAX);
        let limit = self.limit as usize;
        let messages = queue.claim_topics(&self.owner, self.lease, limit, &self.topics).await?;
        Ok(messages.iter().map(|message| ClaimedMessage::new(message, until)).collect())
    }
}

/// Waits for the next wake-up of the database; forever if it sends none.
async fn woken(wakeups: &mut Option<Wakeups>) {
    if let Some(wakeups) = wakeups
        && wakeups.0.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// A claimed message for display.
#[derive(Debug, Serialize)]
struct ClaimedMessage {
    #[serde(flatten)]
    message: MessageDocument,
    locked_until: Timestamp,
    #[serde(skip)]
    size: usize,
}

impl ClaimedMessage {
    fn new(message: &Message, until: Timestamp) -> Self {
        Self { message: message.into(), locked_until: until, size: message.payload().size() }
    }

    fn for_people(&self, ink: Ink) -> String {
        let message = &self.message;
        let known = [
            ("item", Some(message.item.clone())),
            ("topic", Some(message.topic.clone())),
            ("message id", message.message_id.clone()),
            ("correlation id", message.correlation_id.clone()),
            ("enqueued", Some(message.created_at.to_string())),
            ("due", message.due_at.map(|at| at.to_string())),
            ("tried before", Some(message.retry_count.to_string())),
            ("last error", message.last_error.clone()),
            ("held until", Some(self.locked_until.to_string())),
        ];
        let mut pairs: Vec<(&str, String)> =
            known.into_iter().filter_map(|(name, value)| Some((name, lines(&value?)))).collect();
        let headers: Vec<String> = message
            .headers
            .iter()
            .map(|(name, value)| format!("{}  {}", one_line(name), lines(value)))
            .collect();
        if !headers.is_empty() {
            pairs.push(("headers", headers.join("\n")));
        }
        let (form, text) = match &message.payload {
            Content::Text(text) => ("text", text),
            Content::Base64(text) => ("base 64", text),
        };
        pairs.push(("payload", format!("{form}, {}\n{}", bytes(self.size), lines(text))));
        fields(ink, &pairs)
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Claimed(Vec<ClaimedMessage>);

impl Printable for Claimed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no messages".to_owned(),
            held => held.iter().map(|one| one.for_people(ink)).collect::<Vec<_>>().join("\n\n"),
        }
    }
}
