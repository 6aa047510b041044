//! `queue claim`: claims messages for an owner and prints them in full.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use pillarbox::model::OwnerId;
use pillarbox::queue::Message;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Ink, Printable, bytes, fields};
use pillarbox_terminal::printable::{lines, one_line};
use serde::Serialize;

use crate::commands::Session;
use crate::parse;
use crate::target::database_now;
use crate::view::Content;

/// Arguments of `queue claim`.
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// Owner of the claim: a UUID that the worker keeps
    #[arg(long, value_name = "UUID", value_parser = parse::owner)]
    owner: OwnerId,
    /// Length of the lease
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse::lease)]
    lease: Duration,
    /// Claim at most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl Claim {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let queue = session.queue().await?;
        // Read before the claim, so that no lease expires earlier than printed.
        let now = database_now(&**queue.store()).await?;
        let until = now.saturating_add(self.lease).unwrap_or(Timestamp::MAX);
        let messages = queue.claim(&self.owner, self.lease, self.limit as usize).await?;
        session.output.answer(&Claimed(messages.iter().map(|message| Held::new(message, until)).collect()))
    }
}

/// A claimed message for display.
#[derive(Debug, Serialize)]
struct Held {
    id: String,
    token: i64,
    /// `ID@TOKEN`, the argument of the commands that settle.
    item: String,
    topic: String,
    payload: Content,
    correlation_id: Option<String>,
    message_id: Option<String>,
    headers: BTreeMap<String, String>,
    created_at: Timestamp,
    due_at: Option<Timestamp>,
    /// Number of earlier attempts.
    retry_count: u32,
    last_error: Option<String>,
    locked_by: String,
    locked_until: Timestamp,
    #[serde(skip)]
    size: usize,
}

impl Held {
    fn new(message: &Message, until: Timestamp) -> Self {
        let event = message.event();
        let pairs = event.headers().iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            id: message.message_id().to_string(),
            token: message.id().token(),
            item: message.id().to_string(),
            topic: message.topic().to_owned(),
            payload: Content::from(message.payload()),
            correlation_id: message.correlation_id().map(str::to_owned),
            message_id: event.message_id().map(str::to_owned),
            headers: pairs.collect(),
            created_at: message.created_at(),
            due_at: message.due_time(),
            retry_count: message.retry_count(),
            last_error: message.last_error().map(str::to_owned),
            locked_by: message.owner().to_string(),
            locked_until: until,
            size: message.payload().size(),
        }
    }

    fn for_people(&self, ink: Ink) -> String {
        let known = [
            ("item", Some(self.item.clone())),
            ("topic", Some(self.topic.clone())),
            ("message id", self.message_id.clone()),
            ("correlation id", self.correlation_id.clone()),
            ("enqueued", Some(self.created_at.to_string())),
            ("due", self.due_at.map(|at| at.to_string())),
            ("tried before", Some(self.retry_count.to_string())),
            ("last error", self.last_error.clone()),
            ("held until", Some(self.locked_until.to_string())),
        ];
        let mut pairs: Vec<(&str, String)> =
            known.into_iter().filter_map(|(name, value)| Some((name, lines(&value?)))).collect();
        let headers: Vec<String> = self
            .headers
            .iter()
            .map(|(name, value)| format!("{}  {}", one_line(name), lines(value)))
            .collect();
        if !headers.is_empty() {
            pairs.push(("headers", headers.join("\n")));
        }
        let (form, text) = match &self.payload {
            Content::Text(text) => ("text", text),
            Content::Base64(text) => ("base 64", text),
        };
        pairs.push(("payload", format!("{form}, {}\n{}", bytes(self.size), lines(text))));
        fields(ink, &pairs)
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Claimed(Vec<Held>);

impl Printable for Claimed {
    fn for_people(&self, ink: Ink) -> String {
        match self.0.as_slice() {
            [] => "no messages".to_owned(),
            held => held.iter().map(|one| one.for_people(ink)).collect::<Vec<_>>().join("\n\n"),
        }
    }
}
