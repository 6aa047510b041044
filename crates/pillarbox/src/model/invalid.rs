//! Invalid input: the field, the problem and the allowed values.

use std::fmt;

/// Refused input. Names the field and the limit, never the value of a payload or header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A required field is empty.
    #[error("{field} is empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// A required field was not given.
    #[error("{field} is missing: {hint}")]
    Missing {
        /// The field.
        field: &'static str,
        /// How to fix it.
        hint: &'static str,
    },
    /// A text is longer than its column.
    #[error("{field} is {len} {unit} long, at most {max} are allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length.
        len: usize,
        /// The limit.
        max: usize,
        /// The unit of both: `characters` of names, `bytes` of contents.
        unit: &'static str,
    },
    /// A character that the database cannot store.
    #[error("{field} holds {what} at byte {at}, which the database can't keep")]
    Character {
        /// The field.
        field: &'static str,
        /// The kind of character.
        what: &'static str,
        /// The position of the character, in bytes from the start.
        at: usize,
    },
    /// Two fields that exclude each other.
    #[error("{first} and {second} are both set, exactly one is allowed")]
    Both {
        /// The first field.
        first: &'static str,
        /// The second field.
        second: &'static str,
    },
    /// A table or schema name that is not a plain identifier.
    #[error(
        "{field} {value:?} is not an identifier: letters, digits and _ only, not starting with a digit, at most {max} bytes"
    )]
    NotIdentifier {
        /// The field.
        field: &'static str,
        /// The value, cut to 80 characters.
        value: String,
        /// The limit in bytes.
        max: usize,
    },
    /// A number or duration outside its range.
    #[error("{field} is {value}, allowed is {bound}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// The value.
        value: String,
        /// The range in words.
        bound: String,
    },
    /// A field without a column in the layout.
    #[error("{field} has no column in the layout {layout}")]
    NoColumn {
        /// The field.
        field: &'static str,
        /// The layout.
        layout: &'static str,
    },
    /// A value that cannot be parsed.
    #[error("{field} can't be read: {reason}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// The reason, without the value.
        reason: String,
    },
}

impl Invalid {
    /// The field at fault.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Self::Empty { field }
            | Self::Missing { field, .. }
            | Self::TooLong { field, .. }
            | Self::Character { field, .. }
            | Self::NotIdentifier { field, .. }
            | Self::OutOfRange { field, .. }
            | Self::NoColumn { field, .. }
            | Self::Malformed { field, .. } => field,
            Self::Both { first, .. } => first,
        }
    }

    pub(crate) fn range(field: &'static str, value: impl fmt::Display, bound: impl fmt::Display) -> Self {
        Self::OutOfRange { field, value: value.to_string(), bound: bound.to_string() }
    }
}
