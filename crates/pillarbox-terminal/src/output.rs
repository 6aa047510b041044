//! The one place that prints: answers to standard output, everything else to standard error.

mod human;
mod ink;
mod progress;
mod table;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub use human::{ago, bytes, count, counted, shortened, span};
pub use ink::Ink;
pub use progress::Progress;
pub use table::{TableColumn, TextTable, fields};

use crate::error::{CommandError, CommandResult};
use crate::exit::Exit;
use crate::pipe;

/// For whom a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Tables and sentences.
    People,
    /// JSON documents.
    Programs,
}

/// Something a command answers, in both forms.
pub trait Printable: Serialize {
    /// The answer as people read it, without a line break at the end.
    fn for_people(&self, ink: Ink) -> String;
}

/// A failure as programs read it.
#[derive(Serialize)]
struct Complaint<'a> {
    error: &'a CommandError,
}

/// Where a command prints to.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    reader: Reader,
    out: Ink,
    err: Ink,
}

impl Output {
    /// Colours and widths are those of the terminal, if there is one.
    pub fn new(reader: Reader) -> Self {
        Self { reader, out: Ink::of(&io::stdout()), err: Ink::of(&io::stderr()) }
    }

    /// For whom.
    pub fn reader(self) -> Reader {
        self.reader
    }

    /// Prints an answer, for people or as one JSON document on one line.
    pub fn answer(self, answer: &impl Printable) -> CommandResult {
        match self.reader {
            Reader::People => self.line(&answer.for_people(self.out)),
            Reader::Programs => self.json(answer),
        }
    }

    /// Prints one JSON document on one line.
    pub fn json(self, document: &(impl Serialize + ?Sized)) -> CommandResult {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, document)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }

    /// Prints a line as it is.
    pub fn line(self, line: &str) -> CommandResult {
        self.text(&format!("{line}\n"))
    }

    /// Prints a text as it is.
    pub fn text(self, text: &str) -> CommandResult {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Clears a terminal, so that what follows takes the place of what was there; elsewhere leaves a line free.
    pub fn start_screen(self) -> CommandResult {
        const HOME_AND_CLEAR: &str = "\u{1b}[H\u{1b}[2J";
        self.text(if io::stdout().is_terminal() { HOME_AND_CLEAR } else { "\n" })
    }

    /// Tells people something beside the answer; programs are not told.
    pub fn note(self, note: &str) {
        if self.reader == Reader::People {
            self.complain(note);
        }
    }

    /// Asks a question on standard error and reads the answer; `None` where nobody can answer.
    pub fn ask(self, question: &str) -> CommandResult<Option<String>> {
        let attended = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !attended || self.reader == Reader::Programs {
            return Ok(None);
        }
        let mut err = io::stderr().lock();
        write!(err, "{question} ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(Some(answer.trim().to_owned()))
    }

    /// A progress display, where a person watches.
    pub fn progress(self, what: &'static str, total: u64) -> Progress {
        let watched = self.reader == Reader::People && io::stderr().is_terminal();
        Progress::new(watched, what, total)
    }

    /// Tells why the command failed and how the program ends.
    pub fn failure(self, failure: &CommandError) -> Exit {
        if failure.exit == Exit::Done {
            return Exit::Done;
        }
        match self.reader {
            Reader::People => {
                self.complain(&format!("{} {}", self.err.red("error:"), failure.message));
                if let Some(hint) = &failure.hint {
                    self.complain(&format!(" {} {hint}", self.err.bold("hint:")));
                }
            }
            Reader::Programs => {
                // A document of three strings always has a JSON form.
                let document = serde_json::to_string(&Complaint { error: failure });
                self.complain(&document.unwrap_or_default());
            }
        }
        failure.exit
    }

    /// Nobody can be told that standard error is closed, but whoever waits for the end of the program.
    fn complain(self, line: &str) {
        if let Err(error) = writeln!(io::stderr().lock(), "{line}") {
            pipe::failed(&error);
        }
    }
}
