//! Errors of opening the store of a URL; no message contains the URL, which may contain a password.

use pillarbox::port::{ErrorKind, StoreError};

use crate::registry::stores;

/// The reason why the store of a URL can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL has no scheme.
    #[error("the database URL has no scheme; supported: {}", supported())]
    NoScheme,
    /// No store has this scheme.
    #[error("no store for the URL scheme {scheme:?}; supported: {}", supported())]
    UnknownScheme {
        /// The scheme, cut to 20 characters.
        scheme: String,
    },
    /// This build does not include the store.
    #[error("this build does not have the {name} store; it was made with {}", built_in())]
    NotBuiltIn {
        /// The name of the store.
        name: &'static str,
    },
    /// This kind of store does not support an option.
    #[error("the {store} store has no option {option}")]
    NoSuchOption {
        /// The kind of store.
        store: &'static str,
        /// The name of the option.
        option: &'static str,
    },
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ConnectError {
    /// The kind of error, which says what a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoScheme | Self::UnknownScheme { .. } | Self::NoSuchOption { .. } => {
                ErrorKind::InvalidInput
            }
            Self::NotBuiltIn { .. } => ErrorKind::Unsupported,
            Self::Store(error) => error.kind(),
        }
    }
}

/// The URL forms of the stores in this build, for messages.
#[must_use]
pub fn supported() -> String {
    let built_in = stores().iter().filter(|kind| kind.is_built_in());
    built_in.map(|kind| kind.example).collect::<Vec<_>>().join(", ")
}

fn built_in() -> String {
    let names: Vec<_> = stores().iter().filter(|kind| kind.is_built_in()).map(|kind| kind.name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
