//! The layout of a store's tables.

use std::fmt;

use super::flowcatalyst::{EVENTS, NewItem};
use super::{Event, EventId, Invalid, TableName};

/// The layout of a store's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Pillarbox's own layout: rows have sequence numbers, and the holder of a slot delivers its rows.
    #[default]
    Native,
    /// `outbox_events` and `outbox_dispatch_jobs` of other programs: a leader takes rows by status.
    Flowcatalyst,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 2] = [Self::Native, Self::Flowcatalyst];

    /// The name for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Flowcatalyst => "flowcatalyst",
        }
    }

    /// The number of shared slots. Items have one slot, whose holder is the leader.
    #[must_use]
    pub const fn slots(self) -> i16 {
        match self {
            Self::Native => crate::rules::SLOTS,
            Self::Flowcatalyst => 1,
        }
    }

    /// The one of two values that belongs to this layout.
    pub fn either<T>(self, native: T, items: T) -> T {
        match self {
            Self::Native => native,
            Self::Flowcatalyst => items,
        }
    }

    /// Generates an event id of the kind that the layout requires.
    pub(super) fn new_id(self) -> EventId {
        match self {
            Self::Native => EventId::ulid(),
            Self::Flowcatalyst => EventId::tsid(),
        }
    }

    /// Refuses an event with a field that has no column in the layout.
    pub(super) fn check(self, event: &Event) -> Result<(), Invalid> {
        match self {
            Self::Native => Ok(()),
            Self::Flowcatalyst => NewItem::of(event).map(drop),
        }
    }

    /// Whether the layout has a column for headers.
    pub(crate) const fn has_headers(self) -> bool {
        matches!(self, Self::Native)
    }

    /// The default table of the layout.
    pub(super) const fn usual_table(self) -> &'static str {
        match self {
            Self::Native => TableName::DEFAULT,
            Self::Flowcatalyst => EVENTS,
        }
    }

    /// Parses the name.
    pub fn parse(word: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|layout| layout.as_str() == word);
        found.ok_or_else(|| Invalid::Malformed {
            field: "layout",
            reason: "it is neither native nor flowcatalyst".to_owned(),
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_read_back_and_others_are_refused() {
        for layout in Layout::ALL {
            assert_eq!(Layout::parse(layout.as_str()), Ok(layout));
        }
        assert_eq!(Layout::parse("Native").unwrap_err().field(), "layout");
    }
}
