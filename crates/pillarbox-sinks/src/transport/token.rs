//! The bearer token: given as text, or read from a file that may change.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::io::AsyncReadExt as _;

use crate::secret::{Secret, TokenSource};

/// Largest token file that is read, in bytes.
const TOKEN_MAX: u64 = 16 * 1024;
/// Files are local; one that cannot be read in this time is a pipe or a dead mount.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A token, and where it comes from.
pub(super) struct Token {
    source: TokenSource,
    last: Mutex<Option<Bearer>>,
}

/// A token as it is sent.
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

    /// The token as it was read last.
    pub(super) async fn current(&self) -> Result<Bearer, String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match last {
            Some(bearer) => Ok(bearer),
            None => self.read().await,
        }
    }

    /// The token after `refused` was refused, if there is another.
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
                    file.take(TOKEN_MAX).read_to_string(&mut text).await
                };
                match tokio::time::timeout(READ_TIMEOUT, read).await {
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
