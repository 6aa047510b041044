//! Headers: a map of strings that travels with an event.

use std::collections::BTreeMap;
use std::fmt;

use super::limits::{self, HEADER_KEY_MAX, HEADERS_MAX, Limits};
use super::{Invalid, Malformed};

/// The headers of an event, ordered by name.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of headers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The stored form: a flat JSON object, or `None` without headers.
    #[must_use]
    pub fn to_stored(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        // A map of strings to strings always has a JSON form.
        serde_json::to_string(&self.0).ok()
    }

    /// Decodes the stored form. NULL, an empty text and `null` mean no headers.
    pub fn from_stored(stored: Option<&str>) -> Result<Self, Malformed> {
        match stored.map(str::trim) {
            None | Some("" | "null") => Ok(Self::default()),
            Some(text) => serde_json::from_str(text).map(Self).map_err(|e| {
                Malformed::new(format!(
                    "headers are not a flat JSON object of strings, near column {}",
                    e.column()
                ))
            }),
        }
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        const EACH: usize = 2 * size_of::<String>();
        self.0.iter().map(|(name, value)| EACH + name.len() + value.len()).sum()
    }

    pub(crate) fn insert(&mut self, name: String, value: String) {
        self.0.insert(name, value);
    }

    pub(crate) fn validate(&self, limits: &Limits) -> Result<(), Invalid> {
        for (name, value) in &self.0 {
            limits::name("header name", name, HEADER_KEY_MAX)?;
            limits::text("header value", value, limits)?;
        }
        let len = self.0.iter().map(|(k, v)| k.len() + v.len() + 6).sum::<usize>();
        if len > HEADERS_MAX {
            return Err(Invalid::TooLong { field: "headers", len, max: HEADERS_MAX, unit: "bytes" });
        }
        Ok(())
    }
}

/// Shows only names, because values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-051
    #[test]
    fn stored_headers_read_back_and_nothing_is_null() {
        let headers: Headers = [("b", "2"), ("a", "ü\n\"")].into_iter().collect();
        assert_eq!(Headers::from_stored(headers.to_stored().as_deref()).unwrap(), headers);
        assert_eq!(Headers::default().to_stored(), None);
        for none in [None, Some(""), Some(" "), Some("null")] {
            assert!(Headers::from_stored(none).unwrap().is_empty());
        }
        for bad in ["{", "[]", "{\"a\":1}", "{\"a\":{}}"] {
            assert!(Headers::from_stored(Some(bad)).is_err(), "{bad}");
        }
    }

    /// PBX-023
    #[test]
    fn debug_output_hides_values() {
        let headers: Headers = [("authorization", "s3cret")].into_iter().collect();
        assert_eq!(format!("{headers:?}"), r#"["authorization"]"#);
    }
}
