//! Why a URL did not lead to a store. No message holds the URL: it may hold a password.

use pillarbox::port::{ErrorKind, StoreError};

use crate::registry::stores;

/// Why a URL did not lead to a store.
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
    /// The store is known, but not in this build.
    #[error("this build does not have the {name} store; it was made with {}", built_in())]
    NotBuiltIn {
        /// Its name.
        name: &'static str,
    },
    /// An option that this kind of store does not have.
    #[error("the {store} store has no option {option}")]
    NoSuchOption {
        /// The kind of store.
        store: &'static str,
        /// The option.
        option: &'static str,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ConnectError {
    /// What a caller can do about it.
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

/// How URLs of the stores in this build look.
#[must_use]
pub fn supported() -> String {
    let built_in = stores().iter().filter(|kind| kind.is_built_in());
    built_in.map(|kind| kind.example).collect::<Vec<_>>().join(", ")
}

fn built_in() -> String {
    let names: Vec<_> = stores().iter().filter(|kind| kind.is_built_in()).map(|kind| kind.name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
