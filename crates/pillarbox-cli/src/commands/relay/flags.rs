//! Generates flags from the table of keys: all for the relay, some for other commands.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use pillarbox_relay::config::{KEYS, Key, Section, ValueKind};

/// Keys that are options of every command.
const COMMON: [&str; 4] = ["database-url", "layout", "schema", "table"];

/// The keys that are flags of a command.
pub(crate) trait Takes: Clone {
    fn takes(key: &Key) -> bool;
}

/// All keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RelayKeys;

impl Takes for RelayKeys {
    fn takes(key: &Key) -> bool {
        !COMMON.contains(&key.name)
    }
}

/// The keys of the admin server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdminKeys;

impl Takes for AdminKeys {
    fn takes(key: &Key) -> bool {
        key.name == "admin" || key.name.starts_with("admin-")
    }
}

/// The keys that the command line sets, with their values.
#[derive(Debug, Clone)]
pub(crate) struct Flags<K = RelayKeys>(Vec<(String, String)>, PhantomData<K>);

impl<K: Takes> Flags<K> {
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        self.0.clone()
    }

    /// Those of these values whose keys the command takes.
    pub(crate) fn only(values: Vec<(String, String)>) -> Vec<(String, String)> {
        values.into_iter().filter(|(name, _)| Self::own().any(|key| key.name == name)).collect()
    }

    fn own() -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(|key| K::takes(key))
    }
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

impl<K: Takes> Args for Flags<K> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::own().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Takes> FromArgMatches for Flags<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = |key: &Key| Some((key.name.to_owned(), matches.get_one::<String>(key.name)?.clone()));
        Ok(Self(Self::own().filter_map(given).collect(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
