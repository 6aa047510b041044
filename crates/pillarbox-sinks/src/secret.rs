//! Secrets: texts that are never shown.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};

/// A password, token or key, or a URL that may hold one. It prints and serialises as `***`; [`Secret::reveal`] alone reads it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who sends it.
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

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// It is this.
    Text(Secret),
    /// It stands in this file, blank space around it left out. Read again when the endpoint refuses it.
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
