//! Environment variables, except those that select the outbox.

use std::io::{self, IsTerminal};
use std::{env, fmt};

use pillarbox_relay::config::{KEYS, Key, LogFormat};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::pipe::LogWriter;
use pillarbox_terminal::printable::one_line;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

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
    // Ids and errors may contain text of others: a line break in it must not look like a line of the log, nor
    // a code like one for the terminal.
    let fields = debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let value = one_line(&format!("{value:?}"));
        if field.name() == "message" { write!(writer, "{value}") } else { write!(writer, "{field}={value}") }
    });
    // Fails if the process has started a log before, which is then kept.
    let _ = match format {
        LogFormat::Text => {
            log.with_ansi(io::stderr().is_terminal()).fmt_fields(fields.delimited(" ")).try_init()
        }
        LogFormat::Json => log.event_format(JsonLines).try_init(),
    };
    Ok(())
}

/// The keys of the relay that environment variables set.
pub(crate) fn relay_variables() -> Vec<(String, String)> {
    let set = |key: &Key| Some((key.name.to_owned(), env::var(key.variable()).ok()?));
    KEYS.iter().filter_map(set).filter(|(_, value)| !value.is_empty()).collect()
}

/// The environment variables that hold secrets of the relay and the command line, such as
/// `PILLARBOX_DATABASE_URL`.
pub(crate) fn secret_variables() -> impl Iterator<Item = String> {
    KEYS.iter().filter(|key| key.kind.is_secret()).map(Key::variable)
}

/// The author of audit entries: `cli/` and the name of the user.
pub(crate) fn operator() -> String {
    let user = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(|name| env::var(name).ok());
    let user = user.filter(|user| !user.is_empty() && user.len() <= 64);
    format!("cli/{}", user.as_deref().unwrap_or("unknown"))
}
