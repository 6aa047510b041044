//! The payload: JSON text or raw bytes, kept byte for byte.

use std::fmt;

/// The content of an event. It is serialised once, and every path delivers exactly these bytes.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON text, exactly as written.
    Json(Box<str>),
    /// Raw bytes.
    Bytes(Box<[u8]>),
}

impl Payload {
    /// The payload as bytes, for both kinds.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The JSON text, if the payload is JSON.
    #[must_use]
    pub fn as_json(&self) -> Option<&str> {
        match self {
            Self::Json(text) => Some(text),
            Self::Bytes(_) => None,
        }
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.as_bytes().len()
    }
}

/// Shows only kind and size: payloads never reach a log.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Self::Json(_)) { "json" } else { "bytes" };
        write!(f, "{kind}({} bytes)", self.size())
    }
}
