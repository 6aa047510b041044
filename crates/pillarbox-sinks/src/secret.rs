//! Texts that are never shown, logged or serialised.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

/// A password, token or key, or a URL that may contain one. It prints and serialises as `***`. Only
/// [`Secret::reveal`] returns the text.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Use it only where the secret is sent or compared.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

/// The origin of a bearer token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The token itself.
    Text(Secret),
    /// A file that contains the token; surrounding whitespace is ignored. The file is read again when the
    /// endpoint refuses the token.
    File(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn nothing_of_a_secret_is_shown() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret:?} {}", serde_json::to_string(&secret).unwrap()), "*** \"***\"");
        assert_eq!(format!("{:?}", TokenSource::Text(secret)), "Text(***)");
    }
}
