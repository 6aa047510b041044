//! The variables the program reads, besides those of the target.

use std::env;
use std::io::{self, IsTerminal};

use pillarbox_relay::config::{KEYS, Key, LogFormat};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::pipe::LogWriter;
use tracing_subscriber::EnvFilter;

use crate::json_lines::JsonLines;

/// What is logged to standard error, as in `pillarbox=debug`.
const LOG: &str = "PILLARBOX_LOG";

/// What a relay logs if nothing else is asked for: a target matches by its beginning, so this is every crate of ours.
const RELAY_LOG: &str = "warn,pillarbox=info";

/// Starts the log if it is asked for.
pub(crate) fn start_log() -> CommandResult {
    match directives() {
        Some(directives) => log(&directives, LogFormat::Text),
        None => Ok(()),
    }
}

/// Starts the log of a relay, which always has one.
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
    // It would complain of a line that can't be written by a print to standard error, which panics if that is closed.
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_env_filter(filter).with_writer(LogWriter::default);
    // A second start in one process keeps the first.
    let _ = match format {
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.event_format(JsonLines).try_init(),
    };
    Ok(())
}

/// The keys of the relay that are set by variables.
pub(crate) fn relay_variables() -> Vec<(String, String)> {
    let set = |key: &Key| Some((key.name.to_owned(), env::var(key.variable()).ok()?));
    KEYS.iter().filter_map(set).filter(|(_, value)| !value.is_empty()).collect()
}

/// Who is recorded as having changed something.
pub(crate) fn operator() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.filter(|user| !user.is_empty() && user.len() <= 64);
    format!("cli/{}", user.as_deref().unwrap_or("unknown"))
}
