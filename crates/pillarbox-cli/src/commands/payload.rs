//! Reads a payload from the command line, a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use pillarbox::model::{EventBuilder, Invalid};
use pillarbox_terminal::error::{CommandError, CommandResult};

/// The content of a payload: text, or bytes that are not UTF-8.
#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

impl Content {
    pub(crate) fn put_into(self, builder: EventBuilder) -> EventBuilder {
        match self {
            Self::Text(text) => builder.payload_json(text),
            Self::Bytes(bytes) => builder.payload_bytes(bytes),
        }
    }
}

/// Reads the payload of a message or a continuation. Like [`read`], but `-` means standard input too.
pub(crate) fn read_or_input(source: &str, max: usize) -> CommandResult<Content> {
    read(if source == "-" { "@-" } else { source }, max)
}

/// Reads `text`, `@FILE` or `@-`, up to the limit.
pub(crate) fn read(source: &str, max: usize) -> CommandResult<Content> {
    let bytes = match source.strip_prefix('@') {
        None => return Ok(Content::Text(source.to_owned())),
        Some("-") => bounded(io::stdin().lock(), max)?,
        Some(path) => {
            let file = File::open(path).map_err(|error| unreadable(path, &error))?;
            bounded(file, max).map_err(|failure| failure.during(format!("payload file {path:?}")))?
        }
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(error) => Content::Bytes(error.into_bytes()),
    })
}

fn bounded(source: impl Read, max: usize) -> CommandResult<Vec<u8>> {
    let mut bytes = Vec::new();
    let len = source
        .take(max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::usage(format!("the payload can't be read: {error}")))?;
    if len > max {
        return Err(Invalid::TooLong { field: "payload", len, max, unit: "bytes" }.into());
    }
    Ok(bytes)
}

fn unreadable(path: &str, error: &io::Error) -> CommandError {
    CommandError::usage(format!("payload file {path:?} can't be read: {error}"))
        .hint("--payload takes text as it is; only what starts with @ is the name of a file")
}
