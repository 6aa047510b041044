//! `completions`: prints the completion script of a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::Output;

use crate::cli::Cli;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  pillarbox completions bash > ~/.local/share/bash-completion/completions/pillarbox"
)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, output: Output) -> CommandResult {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "pillarbox", &mut script);
        output.text(&String::from_utf8_lossy(&script))
    }
}
