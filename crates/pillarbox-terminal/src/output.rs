//! Prints answers to standard output and everything else to standard error; nothing else prints.

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

/// The kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Tables and sentences for people.
    People,
    /// JSON documents for programs.
    Programs,
}

/// The answer of a command: a text for people, and by `Serialize` a document for programs.
pub trait Printable: Serialize {
    /// The text for people, without a trailing line break.
    fn for_people(&self, ink: Ink) -> String;
}

/// The JSON document of an error.
#[derive(Serialize)]
struct Complaint<'a> {
    error: &'a CommandError,
}

/// The output of a command.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    reader: Reader,
    out: Ink,
    err: Ink,
}

impl Output {
    /// An output for this kind of reader. It uses colours if a stream is a terminal.
    pub fn new(reader: Reader) -> Self {
        Self { reader, out: Ink::of(&io::stdout()), err: Ink::of(&io::stderr()) }
    }

    /// The kind of output.
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

    /// Prints a line unchanged.
    pub fn line(self, line: &str) -> CommandResult {
        self.text(&format!("{line}\n"))
    }

    /// Prints a text unchanged.
    pub fn text(self, text: &str) -> CommandResult {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Clears the screen of a terminal. If standard output is not a terminal, prints an empty line instead.
    pub fn start_screen(self) -> CommandResult {
        const HOME_AND_CLEAR: &str = "\u{1b}[H\u{1b}[2J";
        self.text(if io::stdout().is_terminal() { HOME_AND_CLEAR } else { "\n" })
    }

    /// Prints a note for people on standard error. Programs get no notes.
    pub fn note(self, note: &str) {
        if self.reader == Reader::People {
            self.complain(note);
        }
    }

    /// Asks a question on standard error and reads the answer. `None` if there is no terminal to ask on.
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

    /// A progress bar, which is visible only to people at a terminal.
    pub fn progress(self, what: &'static str, total: u64) -> Progress {
        let watched = self.reader == Reader::People && io::stderr().is_terminal();
        Progress::new(watched, what, total)
    }

    /// Prints the error of a command and returns the exit code.
    pub fn failure(self, failure: &CommandError) -> Exit {
        if failure.exit == Exit::Done {
            return Exit::Done;
        }
        match self.reader {
            Reader::People => {
                self.complain(&format!("{} {}", self.err.red("error:"), failure.message));
                if let Some(hint) = failure.hint.as_ref().filter(|_| !failure.is_advised) {
                    self.complain(&format!(" {} {hint}", self.err.bold("hint:")));
                }
            }
            Reader::Programs => {
                // Can't fail: the document contains only strings.
                let document = serde_json::to_string(&Complaint { error: failure });
                self.complain(&document.unwrap_or_default());
            }
        }
        failure.exit
    }

    /// Prints a line on standard error. A closed standard error can't be reported, but it ends the program.
    fn complain(self, line: &str) {
        if let Err(error) = writeln!(io::stderr().lock(), "{line}") {
            pipe::failed(&error);
        }
    }
}
