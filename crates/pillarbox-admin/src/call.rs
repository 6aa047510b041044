//! One request, after its checks: path, query, body and caller.

use std::collections::BTreeMap;

use axum::body::Bytes;
use pillarbox::model::GroupKey;
use serde::de::DeserializeOwned;

use crate::refusal::{Refusal, bad};
use crate::roles::AdminRole;

/// A query parameter: its name, and what it says.
pub(crate) struct Param(pub(crate) &'static str, pub(crate) &'static str);

/// A request that may be answered.
pub(crate) struct Call {
    pub(crate) path: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Bytes,
    /// What the caller may see.
    pub(crate) role: AdminRole,
    /// The author of audit entries.
    pub(crate) actor: String,
}

impl Call {
    /// A part of the path. Routes declare their parts, so it is there.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// A text of the query.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.query.get(name).cloned()
    }

    /// A number of the query from 1 to `most`.
    pub(crate) fn limit(&self, default: usize, most: usize) -> Result<usize, Refusal> {
        match self.query.get("limit").map(|text| text.parse::<usize>()) {
            None => Ok(default),
            Some(Ok(limit)) if (1..=most).contains(&limit) => Ok(limit),
            Some(_) => Err(bad(format!("`limit` is from 1 to {most}"))),
        }
    }

    /// A group of the query.
    pub(crate) fn group(&self, name: &str) -> Option<GroupKey> {
        self.text(name).map(GroupKey::new)
    }

    /// The body, or its default if it is empty.
    pub(crate) fn body<T: DeserializeOwned + Default>(&self) -> Result<T, Refusal> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        let body = serde_json::from_slice(&self.body);
        // The error quotes names of fields and never values of more than a line.
        body.map_err(|error| bad(format!("the body does not fit: {error}")))
    }
}
