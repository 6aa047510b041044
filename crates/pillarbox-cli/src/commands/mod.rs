//! One file a command: its arguments, what it does, how its answer looks.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
mod envelope;
pub(crate) mod events;
pub(crate) mod groups;
pub(crate) mod join;
pub(crate) mod migrate;
pub(crate) mod nodes;
mod paging;
mod payload;
pub(crate) mod purge;
pub(crate) mod queue;
pub(crate) mod relay;
pub(crate) mod stats;
pub(crate) mod write;

use std::sync::Arc;

use pillarbox::Queue;
use pillarbox::model::Layout;
use pillarbox::port::Store;
use pillarbox_terminal::failure::{Failure, Outcome};
use pillarbox_terminal::output::Output;

use crate::cli::{Cli, Command};
use crate::target::Target;

/// Where a command reads and prints.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) output: Output,
    pub(crate) target: Target,
}

impl Session {
    /// The store that the command line names.
    pub(crate) async fn store(&self) -> Outcome<Arc<dyn Store>> {
        self.target.connect().await
    }

    /// Its queue, where its tables have one.
    pub(crate) async fn queue(&self) -> Outcome<Queue<Arc<dyn Store>>> {
        let store = self.store().await?;
        match store.facts().layout() {
            Layout::Native => Ok(Queue::new(store)),
            Layout::Flowcatalyst => Err(Failure::unsupported("the layout flowcatalyst has no queue")
                .hint("name a database with tables of the layout native; `pillarbox migrate` makes them")),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(cli: Cli, output: Output) -> Outcome {
    let session = Session { output, target: cli.target };
    match cli.command {
        Command::Demo(demo) => demo.run(output).await,
        Command::Migrate(migrate) => migrate.run(&session).await,
        Command::Write(write) => write.run(&session).await,
        Command::Stats(stats) => stats.run(&session).await,
        Command::Events(events) => events.run(&session).await,
        Command::Dead(dead) => dead.run(&session).await,
        Command::Groups(groups) => groups.run(&session).await,
        Command::Nodes(nodes) => nodes.run(&session).await,
        Command::Queue(queue) => queue.run(&session).await,
        Command::Join(join) => join.run(&session).await,
        Command::Purge(purge) => purge.run(&session).await,
        Command::Relay(relay) => relay.run(&session).await,
        Command::Config(config) => config.run(&session),
        Command::Completions(completions) => completions.run(output),
    }
}
