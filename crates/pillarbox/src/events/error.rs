//! What can go wrong at the events door.

use super::AlreadyRegistered;
use crate::model::Invalid;
use crate::port::StoreError;

/// Why an event was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A field is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A before-write hook said no.
    #[error("a before-write hook failed: {0}")]
    Hook(String),
    /// There is no transaction to write in.
    #[error("no transaction is active here: write inside Outbox::scope, or pass the transaction")]
    NoTransaction,
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an outbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Settings that are missing, contradictory or out of range: all of them.
    #[error("the outbox can't be built: {}", list(.0))]
    Settings(Vec<SettingError>),
    /// The database said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was closed before.
    #[error("{0} was closed and can't be started again")]
    Closed(&'static str),
}

/// One thing wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// Out of range or missing.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Two listeners for one pair.
    #[error(transparent)]
    Listener(#[from] AlreadyRegistered),
}

fn list(problems: &[SettingError]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
