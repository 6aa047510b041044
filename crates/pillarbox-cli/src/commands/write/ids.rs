//! Prints the ids of written events as they are committed: one per line, or one JSON array.

use std::cell::Cell;

use pillarbox::model::Written;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Output, Reader};

/// Prints ids. Closes the JSON array even if a later batch fails.
pub(super) struct Ids {
    output: Output,
    printed: Cell<bool>,
}

impl Ids {
    pub(super) fn begin(output: Output) -> CommandResult<Self> {
        if output.reader() == Reader::Programs {
            output.text("[")?;
        }
        Ok(Self { output, printed: Cell::new(false) })
    }

    pub(super) fn print(&self, written: &[Written]) -> CommandResult {
        match self.output.reader() {
            Reader::People => {
                let lines: String = written.iter().map(|row| format!("{}\n", row.id)).collect();
                self.output.text(&lines)
            }
            Reader::Programs => {
                let texts = written.iter().map(|row| serde_json::Value::from(row.id.as_str()).to_string());
                let list = texts.collect::<Vec<_>>().join(",");
                let comma = if self.printed.replace(true) { "," } else { "" };
                self.output.text(&format!("{comma}{list}"))
            }
        }
    }

    pub(super) fn end(self) -> CommandResult {
        match self.output.reader() {
            Reader::People => Ok(()),
            Reader::Programs => self.output.text("]\n"),
        }
    }
}
