//! The ids of events, nodes and owners of claims.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use super::limits::{self, EVENT_ID_MAX};
use super::{Invalid, TsidGenerator};

/// Implements how a newtype of a text is shown.
macro_rules! text {
    ($Name:ident) => {
        impl $Name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $Name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use text;

static ULIDS: Mutex<Option<ulid::Generator>> = Mutex::new(None);

/// The id of an event: 1 to 36 bytes of text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Arc<str>);

impl EventId {
    /// Checks an id chosen by the caller.
    pub fn new(id: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        let id = id.into();
        limits::name("event id", &id, EVENT_ID_MAX)?;
        Ok(Self(id))
    }

    /// Generates a monotonic ULID: ids of one process sort in the order of creation.
    #[must_use]
    pub fn ulid() -> Self {
        let mut guard = ULIDS.lock().unwrap_or_else(PoisonError::into_inner);
        let generator = guard.get_or_insert_default();
        let next = generator.generate();
        // The monotonic generator can overflow within one millisecond; fall back to a plain ULID.
        let id = next.unwrap_or_else(|_| ulid::Ulid::generate());
        Self(id.to_string().into())
    }

    /// Generates a UUID of version 7.
    #[must_use]
    pub fn uuid_v7() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// Generates a TSID: 13 characters of Crockford's base 32.
    #[must_use]
    pub fn tsid() -> Self {
        Self(TsidGenerator::shared().next().to_string().into())
    }

    /// Creates an id from a stored row, without checks: another program may have written it.
    #[must_use]
    pub fn from_row(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }
}

text!(EventId);

/// For logs: control characters are escaped, because another program may have written the id and a line break
/// in it would look like another line of the log.
impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            // Overrides of the direction of text and line separators mislead the eye too.
            '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write!(f, "{}", letter.escape_unicode())
            }
            _ if letter.is_control() => write!(f, "{}", letter.escape_default()),
            _ => f.write_char(letter),
        })
    }
}

/// The id of one incarnation of a delivering process: random, never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u128);

impl NodeId {
    /// Creates a node id from 128 random bits.
    #[must_use]
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    /// Parses the 32 hexadecimal digits that `Display` writes.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() != 32 {
            return Err(Invalid::range(
                "node id",
                format!("{} characters", text.len()),
                "32 hexadecimal digits",
            ));
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|e| Invalid::Malformed { field: "node id", reason: e.to_string() })
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 96)
    }
}

/// The owner of a claim: 1 to 128 bytes of text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(Arc<str>);

impl OwnerId {
    /// Checks the name of an owner.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        let name = name.into();
        limits::name("owner id", &name, 128)?;
        Ok(Self(name))
    }

    /// Generates a random owner, for callers that name none.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }
}

text!(OwnerId);

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-001
    #[test]
    fn default_ids_sort_in_the_order_they_were_made() {
        let ids: Vec<_> = (0..10_000).map(|_| EventId::ulid()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(ids[0].as_str().len(), 26);
    }

    #[test]
    fn ids_of_other_kinds_fit_their_column() {
        assert_eq!(EventId::uuid_v7().as_str().len(), 36);
        assert_eq!(EventId::tsid().as_str().len(), 13);
        assert!(matches!(EventId::new("x".repeat(37)), Err(Invalid::TooLong { max: 36, .. })));
        assert!(matches!(EventId::new(""), Err(Invalid::Empty { .. })));
    }

    #[test]
    fn node_ids_read_back() {
        let id = NodeId::from_random(0x1234);
        assert_eq!(NodeId::parse(&id.to_string()).unwrap(), id);
        assert!(NodeId::parse("zz").is_err());
    }
}
