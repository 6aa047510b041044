//! The layout of a store's tables.

use std::fmt;

use super::Invalid;

/// How the tables of a store are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Pillarbox's own: rows have numbers, and are delivered by who holds their slot.
    #[default]
    Native,
    /// `outbox_events` and `outbox_dispatch_jobs`, as other programs know them: rows are claimed by their status.
    Flowcatalyst,
}

impl Layout {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Native, Self::Flowcatalyst];

    /// The word for people and programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Flowcatalyst => "flowcatalyst",
        }
    }

    /// Reads the word.
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
