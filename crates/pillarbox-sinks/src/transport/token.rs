//! The bearer token, from the configuration or from a file that may change.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::io::AsyncReadExt as _;

use crate::secret::{Secret, TokenSource};

/// Maximum bytes of a token file.
const TOKEN_MAX: u64 = 16 * 1024;
/// Timeout of reading the file. A local file that takes longer is a pipe or a dead mount.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A token and its source.
pub(super) struct Token {
    source: TokenSource,
    last: Mutex<Option<Bearer>>,
}

/// A token as an HTTP header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bearer {
    pub(super) header: HeaderValue,
    pub(super) secret: Secret,
}

impl Token {
    pub(super) fn new(source: TokenSource) -> Result<Self, String> {
        let last = match &source {
            TokenSource::Text(secret) => Some(Bearer::new(secret.reveal())?),
            TokenSource::File(_) => None,
        };
        Ok(Self { source, last: Mutex::new(last) })
    }

    /// The token that was read last. Reads the file if it was not read yet.
    pub(super) async fn current(&self) -> Result<Bearer, String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match last {
            Some(bearer) => Ok(bearer),
            None => self.read().await,
        }
    }

    /// Reads the token again, and returns it if it differs from the refused one.
    pub(super) async fn another(&self, refused: &Bearer) -> Option<Bearer> {
        self.read().await.ok().filter(|bearer| bearer != refused)
    }

    async fn read(&self) -> Result<Bearer, String> {
        let bearer = match &self.source {
            TokenSource::Text(secret) => Bearer::new(secret.reveal())?,
            TokenSource::File(path) => {
                let mut text = String::new();
                let read = async {
                    let file = tokio::fs::File::open(path).await?;
                    file.take(TOKEN_MAX + 1).read_to_string(&mut text).await
                };
                match tokio::time::timeout(READ_TIMEOUT, read).await {
                    Ok(Ok(bytes)) if bytes as u64 > TOKEN_MAX => {
                        return Err(format!(
                            "the token file has more than {TOKEN_MAX} bytes: is it the right file?"
                        ));
                    }
                    Ok(Ok(_)) => Bearer::new(text.trim())?,
                    Ok(Err(error)) => return Err(format!("the token file can't be read: {}", error.kind())),
                    Err(_) => return Err(format!("the token file gave nothing in {READ_TIMEOUT:?}")),
                }
            }
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(bearer.clone());
        Ok(bearer)
    }
}

impl Bearer {
    fn new(token: &str) -> Result<Self, String> {
        if token.is_empty() {
            return Err("the token is empty".to_owned());
        }
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| "the token has characters that no header can hold".to_owned())?;
        header.set_sensitive(true);
        Ok(Self { header, secret: Secret::new(token) })
    }
}
