//! The limits of all fields, names in characters and contents in bytes, and the checks that enforce them.

use super::{Invalid, Layout};

/// Maximum length of an event id.
pub const EVENT_ID_MAX: usize = 36;
/// Maximum length of an event type.
pub const EVENT_TYPE_MAX: usize = 255;
/// Maximum length of an aggregate type.
pub const AGGREGATE_TYPE_MAX: usize = 64;
/// Maximum length of an aggregate id.
pub const AGGREGATE_ID_MAX: usize = 128;
/// Maximum length of a tenant id.
pub const TENANT_ID_MAX: usize = 64;
/// Maximum length of a message group.
pub const MESSAGE_GROUP_MAX: usize = 255;
/// Maximum length of a message id.
pub const MESSAGE_ID_MAX: usize = 255;
/// Maximum length of a correlation id.
pub const CORRELATION_ID_MAX: usize = 255;
/// Maximum length of a header name.
pub const HEADER_KEY_MAX: usize = 255;
/// Maximum size of all headers together, as JSON.
pub const HEADERS_MAX: usize = 64 * 1024;
/// Default maximum size of a payload: 1 MiB.
pub const PAYLOAD_MAX: usize = 1_048_576;
/// Default maximum size of a row to load: 16 MiB.
pub const ROW_BYTES_MAX: usize = 16 * 1_048_576;
/// Stored errors are truncated to this many characters.
pub const ERROR_MAX_CHARS: usize = 4_000;

const TABLE_NAME_MAX: usize = 48;

/// Limits that can be configured, or that depend on the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum payload in bytes. Default: 1 MiB.
    pub payload: usize,
    /// Whether payload and header texts may contain NUL. Default: no, because PostgreSQL cannot store it.
    pub nul_in_text: bool,
    /// The layout, which decides which fields have columns and what kind of ids events get. Default: native,
    /// with all fields and ULIDs.
    pub layout: Layout,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: PAYLOAD_MAX, nul_in_text: false, layout: Layout::Native }
    }
}

impl Limits {
    /// The largest row that a writer can produce within these limits: payload, headers with every character
    /// escaped, and names.
    #[must_use]
    pub const fn largest_row(&self) -> usize {
        const LONGEST_ESCAPE: usize = 6;
        const NAMES_MAX: usize = 8 * 1_024;
        self.payload.saturating_add(LONGEST_ESCAPE * HEADERS_MAX + NAMES_MAX)
    }

    /// Checks a limit for loaded rows: an error if it is below the largest row that a writer can produce.
    #[must_use]
    pub fn too_small_for_rows(&self, row_bytes: usize) -> Option<Invalid> {
        let least = self.largest_row();
        (row_bytes < least).then(|| Invalid::range("max row bytes", row_bytes, format!("{least} or more")))
    }

    /// The default limit for loaded rows: never less than the largest row that a writer can produce.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.largest_row().max(ROW_BYTES_MAX)
    }
}

/// Checks a name: not empty, not too long, and without control characters.
pub(crate) fn name(field: &'static str, value: &str, max: usize) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::Empty { field });
    }
    // Columns of names count characters, which are at most as many as bytes.
    if value.len() > max {
        let len = value.chars().count();
        if len > max {
            return Err(Invalid::TooLong { field, len, max, unit: "characters" });
        }
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(Invalid::Character { field, what: "a control character", at }),
        None => Ok(()),
    }
}

/// Checks free text: no NUL if the database cannot store it.
pub(crate) fn text(field: &'static str, value: &str, limits: &Limits) -> Result<(), Invalid> {
    if limits.nul_in_text {
        return Ok(());
    }
    match value.bytes().position(|b| b == 0) {
        Some(at) => Err(Invalid::Character { field, what: "a NUL character", at }),
        None => Ok(()),
    }
}

/// The stored form of an error text: without NUL, and truncated to 4,000 characters on a character boundary.
#[must_use]
pub fn stored_error(error: &str) -> String {
    error.chars().map(|c| if c == '\0' { '\u{FFFD}' } else { c }).take(ERROR_MAX_CHARS).collect()
}

/// The reason why a group is blocked, from the error of its dead event: the first line.
///
/// Further lines may quote what an endpoint answered. They stay with the event; held groups are shown in places
/// that must not show an answer.
#[must_use]
pub fn held_reason(error: &str) -> String {
    stored_error(error.split('\n').next().unwrap_or_default())
}

/// The name of an outbox table, checked to be a plain identifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName(String);

impl TableName {
    /// The default table of the native layout.
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

    /// The default table of a layout.
    #[must_use]
    pub fn usual(layout: Layout) -> Self {
        Self(layout.usual_table().to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix of the names of the store's other tables: `outbox_event` gives `outbox`, `orders` gives
    /// `orders`.
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
