//! The command line: all commands and their common options.

use clap::{Parser, Subcommand};
use pillarbox_terminal::exit;

use crate::commands::{
    completions, config, dashboard, dead, events, groups, join, migrate, nodes, purge, queue, relay, stats,
    write,
};
use crate::target::Target;

/// A transactional outbox: inspect it, write to it, operate it.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, after_help = exit::TABLE, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Print one JSON document instead of text; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The top-level commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demo on an embedded store; nothing to install
    Demo(pillarbox_demo::Demo),
    /// Create or upgrade the tables, or print the SQL
    Migrate(migrate::Migrate),
    /// Write events in a transaction and print their ids
    Write(write::Write),
    /// Deliver events to an HTTP API, a webhook or a broker, in order within each group
    Relay(relay::Relay),
    /// Serve the admin API of a database: look into it and operate it, without a relay
    Dashboard(dashboard::Dashboard),
    /// Show the state of an outbox
    Stats(stats::Stats),
    /// List and show events, explain what holds one, cancel pending ones
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox events list --status pending")]
    Events(events::Events),
    /// List and show dead events, replay or discard them
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox dead list")]
    Dead(dead::Dead),
    /// List, pause and resume groups, replay or skip a dead head
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox groups unblock Account/42")]
    Groups(groups::Groups),
    /// List the nodes that deliver
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox nodes list")]
    Nodes(nodes::Nodes),
    /// Work queue: enqueue, claim and settle messages, or run a worker
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  pillarbox queue work --exec ./send-mail --topic mail.send\n\nTo look at messages: pillarbox events list, dead list."
    )]
    Queue(queue::Queue),
    /// Join messages of the queue: enqueue another message when all have ended
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  pillarbox join start --expected 3\n\nThen enqueue messages with --join, and say with `join wait` what follows the last."
    )]
    Join(join::Join),
    /// Delete old rows
    Purge(purge::Purge),
    /// Print the keys or the schema of the relay's configuration, or check a file
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox config check --config relay.toml")]
    Config(config::Config),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}
