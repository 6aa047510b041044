//! The commands and what is common to them.

use clap::{Parser, Subcommand};
use pillarbox_terminal::exit;

use crate::commands::{
    completions, config, dead, events, groups, join, migrate, nodes, purge, queue, relay, stats, write,
};
use crate::target::Target;

/// A transactional outbox: look at it, write to it, operate it.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, after_help = exit::TABLE, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Print one JSON document for programs; errors too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main job on an embedded store, with nothing to install
    Demo(pillarbox_demo::Demo),
    /// Create or upgrade the tables, or print the SQL
    Migrate(migrate::Migrate),
    /// Write events in a transaction and print their ids
    Write(write::Write),
    /// Deliver events to an HTTP API, a webhook or a broker, in order within each group
    Relay(relay::Relay),
    /// Show the state of an outbox
    Stats(stats::Stats),
    /// Look at events, take pending ones back
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox events list --status pending")]
    Events(events::Events),
    /// Look at dead events, bring them back or delete them
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox dead list")]
    Dead(dead::Dead),
    /// Look at groups that are held back, hold them or let them go
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox groups unblock Account/42")]
    Groups(groups::Groups),
    /// Look at the nodes that deliver
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox nodes list")]
    Nodes(nodes::Nodes),
    /// Enqueue messages, claim them, settle them: the work queue
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  pillarbox queue work --exec ./send-mail --topic mail.send\n\nTo look at messages: pillarbox events list, dead list."
    )]
    Queue(queue::Queue),
    /// Join messages of the queue: when all have ended, another is enqueued
    #[command(subcommand, arg_required_else_help = true)]
    #[command(
        after_help = "Example:\n  pillarbox join start --expected 3\n\nThen enqueue messages with --join, and say with `join wait` what follows the last."
    )]
    Join(join::Join),
    /// Delete old rows
    Purge(purge::Purge),
    /// Look at the configuration of the relay: its keys, its schema, what is wrong with yours
    #[command(subcommand, arg_required_else_help = true)]
    #[command(after_help = "Example:\n  pillarbox config check --config relay.toml")]
    Config(config::Config),
    /// Print the completions of a shell
    Completions(completions::Completions),
}
