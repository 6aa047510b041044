//! Generates a flag for each key of the relay from the table of keys.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use pillarbox_relay::config::{KEYS, Key, Section, ValueKind};

/// Keys that are options of every command.
const COMMON: [&str; 4] = ["database-url", "layout", "schema", "table"];

/// The keys that the command line sets, with their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags(Vec<(String, String)>);

impl Flags {
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        self.0.clone()
    }
}

fn own() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| !COMMON.contains(&key.name))
}

fn argument(key: &'static Key) -> Arg {
    let mut help = key.help().to_owned();
    if let Some(default) = key.default {
        help = format!("{help} [default: {}]", default.trim_matches('"'));
    }
    if !key.kind.words().is_empty() {
        help = format!("{help} [possible values: {}]", key.kind.words().join(", "));
    }
    let argument = Arg::new(key.name)
        .long(key.name)
        .value_name(key.kind.value_name())
        .action(ArgAction::Set)
        .help_heading(heading(key.section))
        .help(help);
    match key.kind {
        ValueKind::Bool => argument.num_args(0..=1).default_missing_value("true"),
        _ => argument,
    }
}

/// The heading of a section in `--help`. Keys that select tables share the heading of the common options.
const fn heading(section: Section) -> &'static str {
    match section {
        Section::Tables => "Outbox",
        section => section.heading(),
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(own().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |key: &Key| Some((key.name.to_owned(), matches.get_one::<String>(key.name)?.clone()));
        Ok(Self(own().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
