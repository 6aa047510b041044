//! `config`: prints and checks the configuration of the relay.

use clap::Subcommand;
use pillarbox_relay::config::{ShownKey, default_file, json_schema, reference};
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::output::{Ink, Printable, TableColumn, TextTable};
use serde::Serialize;

use super::Session;
use super::relay::{ConfigFile, Flags, misconfigured};

/// Subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the JSON schema of the configuration file, for editors
    #[command(after_help = "Example:\n  pillarbox config schema > relay.schema.json")]
    Schema,
    /// Print a configuration file with every key, its documentation and default
    #[command(after_help = "Example:\n  pillarbox config default > relay.toml")]
    Default,
    /// Print the reference page docs/reference/relay-config.md
    #[command(hide = true)]
    Reference,
    /// Check the configuration and print every problem, or what would run; connects to nothing
    #[command(after_help = "Example:\n  pillarbox config check --config relay.toml")]
    Check {
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        flags: Box<Flags>,
    },
}

impl Config {
    pub(crate) fn run(self, session: &Session) -> CommandResult {
        match self {
            Self::Schema => session.output.line(&format!("{:#}", json_schema())),
            Self::Default => session.output.text(&default_file()),
            Self::Reference => session.output.text(&reference()),
            Self::Check { config, flags } => {
                let config = config.load(session, &flags)?;
                pillarbox_relay::check_sinks(&config).map_err(misconfigured)?;
                let sources = config.sources.into_iter();
                let plans = sources.map(|source| Plan { name: source.name, keys: source.shown });
                let warnings = config.warnings.iter().map(ToString::to_string).collect();
                session.output.answer(&Checked { sources: plans.collect(), warnings })
            }
        }
    }
}

#[derive(Debug, Serialize)]
struct Checked {
    sources: Vec<Plan>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Plan {
    name: String,
    keys: Vec<ShownKey>,
}

impl Printable for Checked {
    fn for_people(&self, ink: Ink) -> String {
        let plan = |plan: &Plan| {
            let columns =
                [TableColumn::Whole("KEY"), TableColumn::Wrapped("VALUE"), TableColumn::Wrapped("FROM")];
            let mut table = TextTable::new(ink, &columns);
            for shown in &plan.keys {
                table.row([shown.key, &shown.value, shown.from.as_deref().unwrap_or("default")]);
            }
            format!("source {}\n{}", plan.name, table.render())
        };
        let plans: Vec<String> = self.sources.iter().map(plan).collect();
        let warnings: Vec<String> =
            self.warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
        format!("{}\n{}\nthe configuration is good", plans.join("\n\n"), warnings.concat())
    }
}
