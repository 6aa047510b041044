//! Ids of the queue: messages, and claims on messages.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::{EventId, Invalid, Seq, Token};

/// Id of a message, which stays the same across retries.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub(crate) EventId);

impl MessageId {
    /// Parses an id and checks its length and characters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        EventId::new(text).map(Self)
    }

    /// Returns the id as text.
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

impl From<MessageId> for EventId {
    fn from(id: MessageId) -> Self {
        id.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// For logs, as that of [`EventId`].
impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Id of one claim on a message, which its owner acknowledges, abandons, fails or extends.
///
/// The text form is `ID@TOKEN`. The token increases with each claim, so an earlier claim changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkItemId {
    pub(crate) message: MessageId,
    pub(crate) token: Token,
    /// Sequence number of the row.
    pub(crate) seq: Seq,
    /// Number of attempts, including the current one.
    pub(crate) attempts: u32,
}

impl WorkItemId {
    /// Id of the claimed message.
    #[must_use]
    pub fn message(&self) -> &MessageId {
        &self.message
    }

    /// Token of the claim.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.token.0
    }

    /// Parses the two parts of `ID@TOKEN`; [`Queue::find`](super::Queue::find) creates a work
    /// item from such a text.
    pub fn parse(text: &str) -> Result<(MessageId, i64), Invalid> {
        let malformed = |reason: &str| Invalid::Malformed { field: "work item", reason: reason.to_owned() };
        let (id, token) = text.rsplit_once('@').ok_or_else(|| malformed("it has the form ID@TOKEN"))?;
        let token = token.parse().map_err(|_| malformed("the token after the @ is not a number"))?;
        Ok((MessageId::parse(id)?, token))
    }

    /// Keeps only the newest claim on each message.
    ///
    /// A store changes a row at most once per call, and only the newest claim can still be valid.
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
