//! Errors of the events API.

use super::AlreadyRegistered;
use crate::model::Invalid;
use crate::port::StoreError;

/// Reasons why an event was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A field of the event is missing, too long or malformed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A before-write hook returned an error or panicked.
    #[error("a before-write hook failed: {0}")]
    Hook(String),
    /// No transaction is active in this context.
    #[error("no transaction is active here: write inside Outbox::scope, or pass the transaction")]
    NoTransaction,
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reasons why an outbox, poller, purger or worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// All settings that are missing, contradictory or out of range.
    #[error("the outbox can't be built: {}", list(.0))]
    Settings(Vec<SettingError>),
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The named component was closed before and cannot be restarted.
    #[error("{0} was closed and can't be started again")]
    Closed(&'static str),
}

/// One configuration problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// A setting is out of range or missing.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Two listeners are registered for the same pair of aggregate type and event type.
    #[error(transparent)]
    Listener(#[from] AlreadyRegistered),
}

fn list(problems: &[SettingError]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
