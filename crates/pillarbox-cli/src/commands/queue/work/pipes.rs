//! The pipes to a long-lived process: lines are written and read at the same time.

use std::future::pending;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};

/// Maximum length of a line that a process writes.
const LINE_MAX: usize = 65_536;
/// Room for one read.
const CHUNK: usize = 16_384;

/// What happened on the pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Bytes have arrived.
    Read,
    /// Bytes were written, or the process reads no more.
    Wrote,
    /// The process has closed its standard output.
    Closed,
    /// The process writes a line that is too long.
    LineTooLong,
}

/// Standard input and output of a process.
#[derive(Debug)]
pub(super) struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    outgoing: Vec<u8>,
    /// How much of `outgoing` is written.
    written: usize,
    incoming: Vec<u8>,
}

impl Pipes {
    pub(super) fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        Self { stdin: Some(stdin), stdout, outgoing: Vec::new(), written: 0, incoming: Vec::new() }
    }

    pub(super) fn takes_input(&self) -> bool {
        self.stdin.is_some()
    }

    pub(super) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Number of bytes that wait to be written.
    pub(super) fn unwritten(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Adds bytes to be written by the next turns.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Reads or writes once. Cancel safe.
    pub(super) async fn turn(&mut self) -> Turn {
        if self.incoming.len() >= LINE_MAX {
            return Turn::LineTooLong;
        }
        self.incoming.reserve(CHUNK);
        let rest = &self.outgoing[self.written..];
        let stdin = self.stdin.as_mut().filter(|_| !rest.is_empty());
        let write = async {
            match stdin {
                Some(stdin) => stdin.write(rest).await,
                None => pending().await,
            }
        };
        tokio::select! {
            read = self.stdout.read_buf(&mut self.incoming) => match read {
                Ok(0) | Err(_) => Turn::Closed,
                Ok(_) => Turn::Read,
            },
            written = write => {
                match written {
                    Ok(written @ 1..) => self.written += written,
                    Ok(0) | Err(_) => self.stdin = None,
                }
                if self.written == self.outgoing.len() {
                    self.outgoing.clear();
                    self.written = 0;
                }
                Turn::Wrote
            }
        }
    }

    /// Calls `each` for every complete line that has arrived, without its line break. Blank lines are left
    /// out.
    pub(super) fn lines(&mut self, mut each: impl FnMut(&[u8])) {
        let Some(end) = self.incoming.iter().rposition(|byte| *byte == b'\n') else { return };
        for line in self.incoming[..end].split(|byte| *byte == b'\n') {
            if !line.trim_ascii().is_empty() {
                each(line);
            }
        }
        self.incoming.drain(..=end);
    }
}
