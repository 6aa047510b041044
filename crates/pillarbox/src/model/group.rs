//! The key of a group of events.

use std::fmt;
use std::sync::Arc;

use super::id::text;
use super::limits::name;
use super::{Event, GLOBAL, Invalid, MESSAGE_GROUP_MAX};

/// The key of a group: the message group, or else the aggregate. Compared byte by byte.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey(Arc<str>);

impl GroupKey {
    /// Creates a key without checks.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// Creates a key from user input: no longer than a message group, and without control characters.
    ///
    /// # Errors
    ///
    /// Why no event can have this group.
    pub fn named(key: &str) -> Result<Self, Invalid> {
        name("group", key, MESSAGE_GROUP_MAX)?;
        Ok(Self::new(key))
    }

    /// The group of an event: its message group, or else `type/id` if an aggregate id is set, or else none.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        Self::of_columns(event.message_group(), Some(event.aggregate_type()), event.aggregate_id())
    }

    /// The group of an event, from its columns. Without a name the aggregate type is the global one.
    #[must_use]
    pub fn of_columns(
        message_group: Option<&str>,
        aggregate_type: Option<&str>,
        aggregate_id: Option<&str>,
    ) -> Option<Self> {
        if let Some(group) = message_group {
            return Some(Self(group.into()));
        }
        let id = aggregate_id?;
        Some(Self(format!("{}/{id}", aggregate_type.unwrap_or(GLOBAL)).into()))
    }
}

text!(GroupKey);

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
