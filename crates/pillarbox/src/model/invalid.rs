//! Bad input: which field, what is wrong with it, and what is allowed.

use std::fmt;

/// Input that was refused. Names the field and the bound, never the value of a payload or header.
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
        /// What to do.
        hint: &'static str,
    },
    /// A text is longer than its column.
    #[error("{field} is {len} bytes long, at most {max} are allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// A character the databases can't hold.
    #[error("{field} holds {what} at byte {at}, which the database can't keep")]
    Character {
        /// The field.
        field: &'static str,
        /// What kind of character.
        what: &'static str,
        /// The position of the character, in bytes from the start.
        at: usize,
    },
    /// Two things that exclude each other.
    #[error("{first} and {second} are both set, exactly one is allowed")]
    Both {
        /// One of them.
        first: &'static str,
        /// The other.
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
        /// The bound in bytes.
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
    /// A field that the tables have no column for.
    #[error("{field} has no column in the layout {layout}")]
    NoColumn {
        /// The field.
        field: &'static str,
        /// The layout.
        layout: &'static str,
    },
    /// A value that is not of the form asked for.
    #[error("{field} can't be read: {reason}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// Why, without the value.
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
