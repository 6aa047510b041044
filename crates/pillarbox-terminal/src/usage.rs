//! Reports errors of the command line without values that may be secret.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, Reader};

/// Prints the error of the parser, or the requested help.
pub fn report(error: &clap::Error, arguments: &[OsString]) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Exit::Done;
    }
    let reader =
        if arguments.iter().any(|argument| argument == "--json") { Reader::Programs } else { Reader::People };
    if reader == Reader::People && error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::Usage;
    }
    Output::new(reader).failure(&failure(error))
}

fn failure(error: &clap::Error) -> CommandError {
    if let Some(message) = in_own_words(error) {
        return CommandError::usage(message).hint("see --help; values that hold spaces need quotes");
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut parts = text.split("\n\n");
    let message = parts.next().unwrap_or(text).trim_end();
    let advice: Vec<&str> = parts.filter_map(|part| part.trim().strip_prefix("tip: ")).collect();
    let usage = text.split("\n\n").find_map(|part| part.strip_prefix("Usage: "));
    let hint = match (advice.first(), usage) {
        (Some(tip), _) => (*tip).to_owned(),
        (None, Some(usage)) => format!("usage: {}; see --help", usage.trim_end()),
        (None, None) => "see --help".to_owned(),
    };
    CommandError::usage(message.split_whitespace().collect::<Vec<_>>().join(" ")).hint(hint)
}

/// A message in place of the parser's own, which would repeat an unexpected argument. Such an argument may be
/// part of a payload or a password.
fn in_own_words(error: &clap::Error) -> Option<&'static str> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument if !word(ContextKind::InvalidArg)?.starts_with('-') => {
            Some("unexpected argument")
        }
        ErrorKind::InvalidSubcommand if !is_plain(word(ContextKind::InvalidSubcommand)?) => {
            Some("there is no such command")
        }
        ErrorKind::InvalidUtf8 => Some("an argument is not UTF-8"),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Some("a command is missing")
        }
        _ => None,
    }
}

/// Whether the word looks like a mistyped command or option, and so is safe to repeat.
fn is_plain(word: &str) -> bool {
    word.len() <= 20 && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}
