//! The bounds of every field, in bytes, and the checks that keep them.

use super::{Invalid, Layout};

/// Longest event id.
pub const EVENT_ID_MAX: usize = 36;
/// Longest event type.
pub const EVENT_TYPE_MAX: usize = 255;
/// Longest aggregate type.
pub const AGGREGATE_TYPE_MAX: usize = 64;
/// Longest aggregate id.
pub const AGGREGATE_ID_MAX: usize = 128;
/// Longest tenant id.
pub const TENANT_ID_MAX: usize = 64;
/// Longest message group.
pub const MESSAGE_GROUP_MAX: usize = 255;
/// Longest message id.
pub const MESSAGE_ID_MAX: usize = 255;
/// Longest correlation id.
pub const CORRELATION_ID_MAX: usize = 255;
/// Longest header name.
pub const HEADER_KEY_MAX: usize = 255;
/// All headers together, as JSON.
pub const HEADERS_MAX: usize = 64 * 1024;
/// Largest payload by default: 1 MiB.
pub const PAYLOAD_MAX: usize = 1_048_576;
/// Largest row that is loaded by default: 16 MiB.
pub const ROW_BYTES_MAX: usize = 16 * 1_048_576;
/// Stored errors are cut to this many characters.
pub const ERROR_MAX_CHARS: usize = 4_000;

const TABLE_NAME_MAX: usize = 48;

/// Bounds that can be set, or that depend on the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload in bytes. Default: 1 MiB.
    pub payload: usize,
    /// Whether payload and header text may hold NUL. Default: no; PostgreSQL can't keep it.
    pub nul_in_text: bool,
    /// Which fields there are columns for, and which ids events get. Default: the native layout, all fields, ULIDs.
    pub layout: Layout,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: PAYLOAD_MAX, nul_in_text: false, layout: Layout::Native }
    }
}

impl Limits {
    /// The largest row that a writer within these limits can leave: the payload, headers whose every character is escaped,
    /// and names.
    #[must_use]
    pub const fn largest_row(&self) -> usize {
        const LONGEST_ESCAPE: usize = 6;
        const NAMES_MAX: usize = 8 * 1_024;
        self.payload.saturating_add(LONGEST_ESCAPE * HEADERS_MAX + NAMES_MAX)
    }

    /// What is wrong with a limit for rows that are loaded, if it is below what a writer can leave.
    #[must_use]
    pub fn too_small_for_rows(&self, row_bytes: usize) -> Option<Invalid> {
        let least = self.largest_row();
        (row_bytes < least).then(|| Invalid::range("max row bytes", row_bytes, format!("{least} or more")))
    }

    /// The largest row that is loaded where nothing else is set: never less than a writer can leave.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.largest_row().max(ROW_BYTES_MAX)
    }
}

/// A name: present, short enough, and free of control characters.
pub(crate) fn name(field: &'static str, value: &str, max: usize) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::Empty { field });
    }
    if value.len() > max {
        return Err(Invalid::TooLong { field, len: value.len(), max });
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(Invalid::Character { field, what: "a control character", at }),
        None => Ok(()),
    }
}

/// Free text: no NUL where the database has no place for it.
pub(crate) fn text(field: &'static str, value: &str, limits: &Limits) -> Result<(), Invalid> {
    if limits.nul_in_text {
        return Ok(());
    }
    match value.bytes().position(|b| b == 0) {
        Some(at) => Err(Invalid::Character { field, what: "a NUL character", at }),
        None => Ok(()),
    }
}

/// An error text as it is stored: without NUL, and cut to 4,000 characters on a character boundary.
#[must_use]
pub fn stored_error(error: &str) -> String {
    error.chars().map(|c| if c == '\0' { '\u{FFFD}' } else { c }).take(ERROR_MAX_CHARS).collect()
}

/// The name of an outbox table, checked to be a plain identifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName(String);

impl TableName {
    /// The table of the native layout.
    pub const DEFAULT: &'static str = "outbox_event";

    /// Checks a name: letters, digits and underscores, not starting with a digit, at most 48 bytes.
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let starts_well = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        if plain && starts_well && name.len() <= TABLE_NAME_MAX {
            return Ok(Self(name));
        }
        let value = name.chars().take(80).collect();
        Err(Invalid::NotIdentifier { field: "table name", value, max: TABLE_NAME_MAX })
    }

    /// The usual table of a layout.
    #[must_use]
    pub fn usual(layout: Layout) -> Self {
        Self(layout.usual_table().to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the names of the tables beside it begin with: `outbox_event` gives `outbox`, `orders` gives `orders`.
    #[must_use]
    pub fn family(&self) -> &str {
        self.0.strip_suffix("_event").filter(|rest| !rest.is_empty()).unwrap_or(&self.0)
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-048
    #[test]
    fn table_names_are_plain_identifiers() {
        for good in ["outbox_event", "_x", "Orders2"] {
            assert_eq!(TableName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "1a", "a-b", "a b", "a;drop table x", "a\"b", "ä", &"x".repeat(49)] {
            assert!(matches!(TableName::new(bad), Err(Invalid::NotIdentifier { .. })), "{bad}");
        }
    }

    /// EVT-049
    #[test]
    fn stored_errors_are_cut_on_a_character_boundary() {
        let cut = stored_error(&"ä".repeat(5_000));
        assert_eq!(cut.chars().count(), 4_000);
        assert_eq!(stored_error("a\0b"), "a\u{FFFD}b");
    }
}
