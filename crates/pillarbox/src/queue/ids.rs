//! Ids of the queue, each of its own type.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::{EventId, Invalid, Seq, Token};

/// A message: stays the same across retries.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(crate) EventId);

impl MessageId {
    /// Reads an id.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        EventId::new(text).map(Self)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<EventId> for MessageId {
    fn from(id: EventId) -> Self {
        Self(id)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A message as one claim holds it: what an owner acknowledges, abandons or fails. Its text is `ID@TOKEN`; the token grows
/// with each claim, so that whoever held an earlier one changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkItemId {
    pub(crate) message: MessageId,
    pub(crate) token: Token,
    /// Where the row is.
    pub(crate) seq: Seq,
    /// Attempts, this one included.
    pub(crate) attempts: u32,
}

impl WorkItemId {
    /// The message.
    #[must_use]
    pub fn message(&self) -> &MessageId {
        &self.message
    }

    /// The claim's number.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token.0
    }

    /// The two parts of `ID@TOKEN`; [`Queue::find`](super::Queue::find) makes a work item of them.
    pub fn parse(text: &str) -> Result<(MessageId, i64), Invalid> {
        let malformed = |reason: &str| Invalid::Malformed { field: "work item", reason: reason.to_owned() };
        let (id, token) = text.rsplit_once('@').ok_or_else(|| malformed("it has the form ID@TOKEN"))?;
        let token = token.parse().map_err(|_| malformed("the token behind the @ is no number"))?;
        Ok((MessageId::parse(id)?, token))
    }

    /// Each message once: a store changes a row once in a call, and only its newest claim can be held.
    pub(super) fn newest(items: &[Self]) -> Vec<&Self> {
        let mut newest: BTreeMap<&MessageId, &Self> = BTreeMap::new();
        for item in items {
            let known = newest.entry(&item.message).or_insert(item);
            if known.token < item.token {
                *known = item;
            }
        }
        newest.into_values().collect()
    }
}

impl fmt::Display for WorkItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.message, self.token.0)
    }
}
