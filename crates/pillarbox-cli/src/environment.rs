//! Environment variables, except those that select the outbox.

use std::env;
use std::io::{self, IsTerminal};

use pillarbox_relay::config::{KEYS, Key, LogFormat};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::pipe::LogWriter;
use tracing_subscriber::EnvFilter;

use crate::json_lines::JsonLines;

/// Log levels by target, such as `pillarbox=debug`. The log goes to standard error.
const LOG: &str = "PILLARBOX_LOG";

/// The default log levels of a relay. A target matches by its prefix, so `pillarbox` includes all our crates.
const RELAY_LOG: &str = "warn,pillarbox=info";

/// Starts the log if the environment variable is set.
pub(crate) fn start_log() -> CommandResult {
    match directives() {
        Some(directives) => log(&directives, LogFormat::Text),
        None => Ok(()),
    }
}

/// Starts the log of a relay, with default levels if the environment variable is not set.
pub(crate) fn start_relay_log(format: LogFormat) -> CommandResult {
    log(directives().as_deref().unwrap_or(RELAY_LOG), format)
}

fn directives() -> Option<String> {
    env::var(LOG).ok().filter(|directives| !directives.is_empty())
}

fn log(directives: &str, format: LogFormat) -> CommandResult {
    let filter = EnvFilter::try_new(directives).map_err(|_| {
        CommandError::usage(format!("{LOG} is not a list of levels")).hint("as in pillarbox=debug or warn")
    })?;
    // The subscriber reports a failed write with `eprintln`, which panics if standard error is closed.
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_env_filter(filter).with_writer(LogWriter::default);
    // Fails if the process has started a log before, which is then kept.
    let _ = match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.event_format(JsonLines).try_init(),
    };
    Ok(())
}

/// The keys of the relay that environment variables set.
pub(crate) fn relay_variables() -> Vec<(String, String)> {
    let set = |key: &Key| Some((key.name.to_owned(), env::var(key.variable()).ok()?));
    KEYS.iter().filter_map(set).filter(|(_, value)| !value.is_empty()).collect()
}

/// The author of audit entries: `cli/` and the name of the user.
pub(crate) fn operator() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.filter(|user| !user.is_empty() && user.len() <= 64);
    format!("cli/{}", user.as_deref().unwrap_or("unknown"))
}
