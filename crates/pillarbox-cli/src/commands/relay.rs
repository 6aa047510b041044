//! `relay`: runs the daemon that delivers events.

mod flags;
mod report;

use std::sync::Arc;

use clap::Args;
use pillarbox_relay::config::{Input, Problems, RelayConfig};
use pillarbox_relay::{Relay as Running, RelayParts, RelayStartError, UrlSinks};
use pillarbox_sinks::LineWriter;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::interrupts::Interrupts;
use pillarbox_terminal::pipe::{self, Watched};

use super::Session;
use crate::environment::{relay_variables, start_relay_log};
pub(crate) use flags::{AdminKeys, Flags};
use report::{Summary, is_stdout, start_line};

const AFTER_HELP: &str = "\
Examples:
  pillarbox relay --database-url postgres://relay@localhost/shop --api-base-url https://api.example.com
  pillarbox relay --config relay.toml --admin 127.0.0.1:7080
  pillarbox relay --url sqlite:orders.db --sink stdout: --until-empty

Every option except --config and --until-empty is also a key of the file and an environment variable:
--poll-interval is `poll-interval = \"1s\"` and PILLARBOX_POLL_INTERVAL.
Flags override environment variables, which override the file.
`pillarbox config default` prints a file with every key; `pillarbox config check` prints the effective values.
Keep secrets in files or environment variables: other users can see flags in the process list.

Ctrl-C and SIGTERM shut the relay down: it stops reading, delivers buffered events for at most --drain and
releases the rest. A second signal ends it at once.
If the reader of its standard output or error is gone, it shuts down in the same way, with exit code 0.
The log goes to standard error; PILLARBOX_LOG sets its levels, as in pillarbox=debug.";

/// Arguments of `relay`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Relay {
    #[command(flatten)]
    config: ConfigFile,
    /// Exit when nothing more can be delivered; delayed events and those of blocked or paused groups stay
    #[arg(long)]
    until_empty: bool,
    #[command(flatten)]
    flags: Flags,
}

/// The option that names the configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// Configuration file in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

impl ConfigFile {
    /// Loads the configuration from the file, environment variables and the command line.
    pub(crate) fn load(&self, session: &Session, flags: &Flags) -> CommandResult<RelayConfig> {
        let file = match &self.config {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).map_err(|error| {
                    CommandError::usage(format!("the file {name:?} can't be read: {error}"))
                        .hint("`pillarbox config default` prints one to start from")
                })?;
                Some((name, text))
            }
        };
        let flags = [session.target.given(), flags.given()].concat();
        RelayConfig::load(&Input { file, variables: relay_variables(), flags }).map_err(misconfigured)
    }
}

/// The reason why the relay stops.
enum Ending {
    /// A signal arrived, or the reader of its output is gone.
    Told,
    Empty,
}

impl Relay {
    pub(crate) async fn run(self, session: &Session) -> CommandResult {
        let config = self.config.load(session, &self.flags)?;
        start_relay_log(config.log_format)?;
        let mut interrupts = Interrupts::listen()?;
        let lines: Vec<String> = config.sources.iter().map(start_line).collect();
        let prints_events = config.sources.iter().any(is_stdout);
        let sinks = Arc::new(UrlSinks { writer: Some(LineWriter::new(Watched(tokio::io::stdout()))) });
        let starting = Running::start(RelayParts { config, sinks });
        let mut relay = tokio::select! {
            started = starting => started.map_err(not_started)?,
            () = interrupts.come() => return Ok(()),
        };
        lines.iter().for_each(|line| session.output.note(line));
        if let Some(address) = relay.admin_address() {
            session.output.note(&format!("admin: http://{address}"));
        }
        let ended = self.wait(&relay, &mut interrupts).await;
        close(&mut relay, &mut interrupts).await?;
        let ending = ended?;
        let summary = Summary::of(&relay, matches!(ending, Ending::Empty)).await;
        relay.shut_down().await;
        summary.print(session.output, prints_events)
    }

    async fn wait(&self, relay: &Running, interrupts: &mut Interrupts) -> CommandResult<Ending> {
        if !self.until_empty {
            tokio::select! {
                () = interrupts.come() => {}
                () = pipe::reader_gone() => {}
            }
            return Ok(Ending::Told);
        }
        // With `--until-empty` an unavailable database is an error instead of a reason to wait.
        if let Some(trouble) = relay.troubles().into_iter().next() {
            return Err(CommandError::of_kind(trouble.kind, &trouble.to_string()));
        }
        tokio::select! {
            () = interrupts.come() => Ok(Ending::Told),
            () = pipe::reader_gone() => Ok(Ending::Told),
            () = relay.until_empty() => Ok(Ending::Empty),
        }
    }
}

/// Closes the relay. A second interrupt stops it at once.
async fn close(relay: &mut Running, interrupts: &mut Interrupts) -> CommandResult {
    tokio::select! {
        () = relay.close() => Ok(()),
        () = interrupts.come() => {
            Err(CommandError::failed("stopped before everything was delivered or released")
                .hint("nothing is lost: other relays take over when the lease ends"))
        }
    }
}

/// The error of a command whose configuration has these problems.
pub(super) fn misconfigured(problems: Problems) -> CommandError {
    let message = match problems.0.as_slice() {
        [problem] => format!("the configuration is wrong: {problem}"),
        several => {
            let lines: Vec<String> = several.iter().map(|problem| format!("\n  {problem}")).collect();
            format!("the configuration is wrong in {} places:{}", several.len(), lines.concat())
        }
    };
    CommandError::usage(message).hint("`pillarbox config default` shows every key")
}

fn not_started(error: RelayStartError) -> CommandError {
    match error {
        RelayStartError::Config(problems) => misconfigured(problems),
        RelayStartError::Sources(errors) => {
            let kind = errors.first().map(|error| error.kind);
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            match kind {
                Some(kind) => CommandError::of_kind(kind, &lines.join("\n  ")),
                None => CommandError::failed("no source runs"),
            }
        }
        other => CommandError::failed(other.to_string()),
    }
}
