//! The bearer token, from the configuration or from a file that may change.

use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

use crate::secret::{Secret, TokenSource, read_token};

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
            TokenSource::File(path) => Bearer::new(read_token(path).await?.reveal())?,
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
