//! The group: the key in whose order events are delivered.

use std::fmt;
use std::sync::Arc;

use super::limits::name;
use super::{Event, Invalid, MESSAGE_GROUP_MAX};

/// The key of a group: the message group, else the aggregate; compared by bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey(Arc<str>);

impl GroupKey {
    /// A group by its name.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// A group by a name that somebody typed: as long as a message group may be, and free of control characters.
    ///
    /// # Errors
    ///
    /// The reason why no event can have this group.
    pub fn named(key: &str) -> Result<Self, Invalid> {
        name("group", key, MESSAGE_GROUP_MAX)?;
        Ok(Self::new(key))
    }

    /// The group of an event: its message group; else, where an aggregate id is set, `type/id`; else none.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        if let Some(group) = event.message_group() {
            return Some(Self(group.into()));
        }
        event.aggregate_id().map(|id| Self(format!("{}/{id}", event.aggregate_type()).into()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
