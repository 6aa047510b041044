//! Colours: on a terminal, and none elsewhere.

use std::env;
use std::io::IsTerminal;

use owo_colors::OwoColorize;

/// Whether what is printed is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// As it is.
    #[default]
    Plain,
    /// With colours of the terminal.
    Coloured,
}

impl Ink {
    /// Coloured on a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub fn of(stream: &impl IsTerminal) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !refused && !dumb { Self::Coloured } else { Self::Plain }
    }

    /// What matters most.
    pub fn bold(self, text: &str) -> String {
        self.paint(text, |text| text.bold().to_string())
    }

    /// What went wrong.
    pub fn red(self, text: &str) -> String {
        self.paint(text, |text| text.red().bold().to_string())
    }

    /// What needs a look.
    pub fn yellow(self, text: &str) -> String {
        self.paint(text, |text| text.yellow().to_string())
    }

    /// What went well.
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
