//! Secrets: texts that have no `Debug` and no `Display`.

use std::path::PathBuf;

use serde::Deserialize;

/// A password, token or key. It can be read by [`Secret::reveal`] only.
#[derive(Clone, PartialEq, Eq, Deserialize)]
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

/// Where a token comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// It is this.
    Text(Secret),
    /// It stands in this file, blank space around it left out. Read again when the endpoint refuses it.
    File(PathBuf),
}
