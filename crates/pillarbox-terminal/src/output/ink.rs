//! Colours text on a terminal.

use std::env;
use std::io::IsTerminal;

use owo_colors::OwoColorize;

/// Whether output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// Without colours.
    #[default]
    Plain,
    /// With terminal colours.
    Coloured,
}

impl Ink {
    /// Coloured on a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !refused && !dumb { Self::Coloured } else { Self::Plain }
    }

    /// Marks the most important text.
    pub fn bold(self, text: &str) -> String {
        self.paint(text, |text| text.bold().to_string())
    }

    /// Marks a failure.
    pub fn red(self, text: &str) -> String {
        self.paint(text, |text| text.red().bold().to_string())
    }

    /// Marks a warning.
    pub fn yellow(self, text: &str) -> String {
        self.paint(text, |text| text.yellow().to_string())
    }

    /// Marks a success.
    pub fn green(self, text: &str) -> String {
        self.paint(text, |text| text.green().bold().to_string())
    }

    fn paint(self, text: &str, coloured: impl Fn(&str) -> String) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => coloured(text),
        }
    }
}
