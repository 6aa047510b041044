//! Texts that are never shown, logged or serialised.

use std::fmt;
use std::path::PathBuf;
#[cfg(any(feature = "http", feature = "nats", feature = "webhook"))]
use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize, Serializer};
#[cfg(any(feature = "http", feature = "nats", feature = "webhook"))]
use tokio::io::AsyncReadExt as _;

/// Maximum bytes of a token file.
#[cfg(any(feature = "http", feature = "nats", feature = "webhook"))]
const TOKEN_MAX: u64 = 16 * 1024;
/// Timeout of reading the file. A local file that takes longer is a pipe or a dead mount.
#[cfg(any(feature = "http", feature = "nats", feature = "webhook"))]
const READ_TIMEOUT: Duration = Duration::from_secs(5);

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

/// The token in a file. A file that is too large is an error: a part of it would be sent as a token.
#[cfg(any(feature = "http", feature = "nats", feature = "webhook"))]
pub(crate) async fn read_token(path: &Path) -> Result<Secret, String> {
    let mut text = String::new();
    let read = async {
        let file = tokio::fs::File::open(path).await?;
        file.take(TOKEN_MAX + 1).read_to_string(&mut text).await
    };
    match tokio::time::timeout(READ_TIMEOUT, read).await {
        Ok(Ok(bytes)) if bytes as u64 > TOKEN_MAX => {
            Err(format!("the token file has more than {TOKEN_MAX} bytes: is it the right file?"))
        }
        Ok(Ok(_)) => Ok(Secret::new(text.trim())),
        Ok(Err(error)) => Err(format!("the token file can't be read: {}", error.kind())),
        Err(_) => Err(format!("the token file gave nothing in {READ_TIMEOUT:?}")),
    }
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
