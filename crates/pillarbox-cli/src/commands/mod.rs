//! One file per command: its arguments, its action and its output.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dashboard;
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

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::Queue;
use pillarbox::port::{AnyTable, Store};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::Output;

use crate::cli::{Cli, Command};
use crate::target::Target;

/// The outbox that a command uses, and its output.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) output: Output,
    pub(crate) target: Target,
    /// The stores to shut down when the command ends.
    opened: Opened,
}

/// Stores that a command has opened.
#[derive(Default)]
struct Opened(Mutex<Vec<AnyTable>>);

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opened")
    }
}

impl Session {
    /// Opens the store that the command line selects.
    pub(crate) async fn store(&self) -> CommandResult<AnyTable> {
        let store = self.target.connect().await?;
        self.opened.0.lock().unwrap_or_else(PoisonError::into_inner).push(store.clone());
        Ok(store)
    }

    /// Opens every table that the command line selects, with its name.
    pub(crate) async fn tables(&self) -> CommandResult<Vec<(String, AnyTable)>> {
        let tables = self.target.connect_all().await?;
        let mut opened = self.opened.0.lock().unwrap_or_else(PoisonError::into_inner);
        opened.extend(tables.iter().map(|(_, table)| table.clone()));
        Ok(tables)
    }

    /// Waits for the background work of the stores.
    async fn close(self) {
        let opened = self.opened.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        for store in opened {
            store.shut_down().await;
        }
    }

    /// Opens the queue of the store. Fails for tables of items, which have none.
    pub(crate) async fn queue(&self) -> CommandResult<Queue<Arc<dyn Store>>> {
        match self.store().await? {
            AnyTable::Native(store) => Ok(Queue::new(store)),
            AnyTable::Items(_) => Err(CommandError::unsupported("the layout flowcatalyst has no queue")
                .hint("name a database with tables of the layout native; `pillarbox migrate` makes them")),
        }
    }
}

/// Runs a command and closes its stores.
pub(crate) async fn run(cli: Cli, output: Output) -> CommandResult {
    let session = Session { output, target: cli.target, opened: Opened::default() };
    let outcome = run_on(&session, cli.command).await;
    session.close().await;
    outcome
}

async fn run_on(session: &Session, command: Command) -> CommandResult {
    let output = session.output;
    match command {
        Command::Demo(demo) => demo.run(output).await,
        Command::Migrate(migrate) => migrate.run(session).await,
        Command::Write(write) => write.run(session).await,
        Command::Stats(stats) => stats.run(session).await,
        Command::Events(events) => events.run(session).await,
        Command::Dead(dead) => dead.run(session).await,
        Command::Groups(groups) => groups.run(session).await,
        Command::Nodes(nodes) => nodes.run(session).await,
        Command::Queue(queue) => queue.run(session).await,
        Command::Join(join) => join.run(session).await,
        Command::Purge(purge) => purge.run(session).await,
        Command::Relay(relay) => relay.run(session).await,
        Command::Dashboard(dashboard) => dashboard.run(session).await,
        Command::Config(config) => config.run(session),
        Command::Completions(completions) => completions.run(output),
    }
}
