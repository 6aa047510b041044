//! The error of a command: a message for people, a class for programs, and an exit code.

use std::io;

use pillarbox::events::StartError;
use pillarbox::model::Invalid;
use pillarbox::port::{ErrorKind, StoreError};
use pillarbox::queue::{JoinError, QueueError};
use pillarbox::redact;

use crate::exit::Exit;

/// The error of a command. Messages and hints are redacted when they are set.
#[derive(Debug, thiserror::Error, serde::Serialize)]
#[error("{message}")]
pub struct CommandError {
    #[serde(skip)]
    /// The exit code of the program.
    pub exit: Exit,
    /// The class of the error, for programs.
    pub kind: &'static str,
    /// What went wrong, for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Whether the message says what the hint would say.
    #[serde(skip)]
    pub(crate) is_advised: bool,
}

/// The result of a command.
pub type CommandResult<T = ()> = Result<T, CommandError>;

impl CommandError {
    fn new(exit: Exit, kind: &'static str, message: impl AsRef<str>) -> Self {
        Self { exit, kind, message: redact::text(message.as_ref()), hint: None, is_advised: false }
    }

    /// The command was tried and failed.
    pub fn failed(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, "failed", message)
    }

    /// The command line or the configuration is wrong.
    pub fn usage(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// A named object does not exist.
    pub fn not_found(message: impl AsRef<str>) -> Self {
        Self::new(Exit::NotFound, "not-found", message)
    }

    /// Another owner holds the rows to change.
    pub fn ownership_lost(message: impl AsRef<str>) -> Self {
        Self::new(Exit::OwnershipLost, "ownership-lost", message)
    }

    /// The current state does not allow the command.
    pub fn conflict(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Failed, "conflict", message)
    }

    /// The database does not support the command.
    pub fn unsupported(message: impl AsRef<str>) -> Self {
        Self::new(Exit::Usage, "unsupported", message)
    }

    /// The reader of the output is gone, so nothing is printed, and the program exits with 0.
    fn unread() -> Self {
        Self::new(Exit::Done, "unread", "")
    }

    /// An error of a store or a connection, by its kind.
    pub fn of_kind(kind: ErrorKind, message: &str) -> Self {
        let (exit, name) = class(kind);
        let failure = Self::new(exit, name, message);
        match advice(kind) {
            // For people, a message with advice of its own is enough. Programs find the hint in its field.
            Some(hint) => {
                Self { is_advised: ADVICE.iter().any(|word| message.contains(word)), ..failure.hint(hint) }
            }
            None => failure,
        }
    }

    /// Adds a hint about what to do.
    pub fn hint(mut self, hint: impl AsRef<str>) -> Self {
        self.hint = Some(redact::text(hint.as_ref()));
        self
    }

    /// Prefixes the message with the operation that failed.
    pub fn during(mut self, what: impl AsRef<str>) -> Self {
        self.message = format!("{}: {}", redact::text(what.as_ref()), self.message);
        self
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::of_kind(error.kind(), &error.to_string())
    }
}

impl From<StartError> for CommandError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Store(error) => error.into(),
            StartError::Settings(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                Self::new(Exit::Usage, "invalid-input", problems.join("; "))
            }
            other => Self::failed(other.to_string()),
        }
    }
}

impl From<Invalid> for CommandError {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::Usage, "invalid-input", invalid.to_string())
    }
}

impl From<QueueError> for CommandError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Invalid(invalid) => invalid.into(),
            QueueError::Store(error) => error.into(),
            QueueError::NotHeld(_) => Self::ownership_lost(error.to_string()),
        }
    }
}

impl From<JoinError> for CommandError {
    fn from(error: JoinError) -> Self {
        let message = error.to_string();
        match error {
            JoinError::Invalid(invalid) => invalid.into(),
            JoinError::Store(error) => error.into(),
            JoinError::NoSuchJoin(_) => {
                Self::not_found(message).hint("`pillarbox join list` lists the joins")
            }
            JoinError::NoSuchMessage(_) | JoinError::NotAMember { .. } => Self::not_found(message),
            JoinError::Ended { .. } | JoinError::Full { .. } | JoinError::AlreadyWaiting(_) => {
                Self::conflict(message)
            }
        }
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::unread(),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        match error.io_error_kind() {
            Some(io::ErrorKind::BrokenPipe) => Self::unread(),
            _ => Self::failed("the answer has no JSON form"),
        }
    }
}

fn class(kind: ErrorKind) -> (Exit, &'static str) {
    match kind {
        ErrorKind::Unavailable => (Exit::Unavailable, "unavailable"),
        ErrorKind::Timeout => (Exit::Unavailable, "timeout"),
        ErrorKind::InvalidInput => (Exit::Usage, "invalid-input"),
        ErrorKind::Unsupported => (Exit::Usage, "unsupported"),
        ErrorKind::Conflict => (Exit::Failed, "conflict"),
        ErrorKind::Schema => (Exit::Failed, "schema"),
        ErrorKind::Permission => (Exit::Failed, "permission"),
        ErrorKind::Unknown => (Exit::Unavailable, "unknown-outcome"),
        _ => (Exit::Failed, "unexpected"),
    }
}

/// What a message contains that advises by itself.
const ADVICE: [&str; 3] = ["`pillarbox migrate", "grant ", "check "];

fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unavailable | ErrorKind::Timeout => {
            Some("check that the database can be reached and written, then try again")
        }
        ErrorKind::Conflict => Some("another process changed it at the same time: try again"),
        ErrorKind::Schema => Some("create or upgrade the tables with `pillarbox migrate`"),
        ErrorKind::Permission => Some("grant the database user what it lacks, or use another"),
        ErrorKind::Unknown => Some("check with `pillarbox events show ID` before you try again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: ErrorKind) -> CommandError {
        StoreError::new(kind, "list", "orders", "detail").into()
    }

    #[test]
    fn every_kind_of_store_error_has_its_exit_code() {
        for (kind, exit) in [
            (ErrorKind::Unavailable, Exit::Unavailable),
            (ErrorKind::Timeout, Exit::Unavailable),
            (ErrorKind::InvalidInput, Exit::Usage),
            (ErrorKind::Unsupported, Exit::Usage),
            (ErrorKind::Conflict, Exit::Failed),
            (ErrorKind::Schema, Exit::Failed),
            (ErrorKind::Unknown, Exit::Unavailable),
            (ErrorKind::Permission, Exit::Failed),
            (ErrorKind::Unexpected, Exit::Failed),
        ] {
            assert_eq!(failure(kind).exit, exit, "{kind:?}");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = CommandError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(failure.exit, Exit::Done);
    }

    /// PBX-023
    #[test]
    fn passwords_are_taken_out_of_messages_and_hints() {
        let failure = CommandError::failed("no postgres://u:s3cret@h/db").hint("try postgres://u:s3cret@h");
        assert_eq!(failure.message, "no postgres://***@h/db");
        assert_eq!(failure.hint.as_deref(), Some("try postgres://***@h"));
    }
}
