//! Texts that are never shown: tokens, passwords, URLs that may hold one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A text that is never shown: it prints and serialises as `***`.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
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

/// A URL as people may see it: no user, no password, no query, nothing after `#`.
#[must_use]
pub fn shown_url(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = bare.split_once("://") else { return bare.to_owned() };
    // A password may hold `/` and `@`: everything up to the last `@` goes. Without one there is no user, though
    // what stood behind a `?` may have held it.
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let cut = bare.len() < url.len() && url[bare.len()..].contains('@');
    if cut { format!("{scheme}://***") } else { format!("{scheme}://{place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-023
    #[test]
    fn nothing_of_a_secret_is_shown() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret:?} {}", serde_json::to_string(&secret).unwrap()), "*** \"***\"");
        for (url, shown) in [
            ("postgres://me:s3cret@db:5432/shop?sslmode=require", "postgres://db:5432/shop"),
            ("postgres://me:s3/cr@et@db/shop", "postgres://db/shop"),
            ("postgres://me:s3?cr@db/shop", "postgres://***"),
            ("https://api.example.com/v1?key=s3cret", "https://api.example.com/v1"),
            ("sqlite:shop.db", "sqlite:shop.db"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }
}
