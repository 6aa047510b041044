//! The demo: shows delivery, a crash, take-over and replay on an embedded store, with nothing to install.

mod crew;
mod folder;
mod ledger;
mod plan;
mod post;
mod receiver;
mod screen;
mod serve;
mod shop;
mod story;
mod summary;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pillarbox::port::Table;
use pillarbox_sqlite::SqliteStore;
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::interrupts::Interrupts;
use pillarbox_terminal::output::{Output, count};

use crate::crew::Orders;
use crate::folder::DemoFolder;
use crate::plan::{EVENTS, Plan};
use crate::receiver::Receiver;
use crate::screen::Screen;
use crate::shop::Shop;
use crate::story::Story;
use crate::summary::Summary;
pub use worker::{COMMAND as WORKER_COMMAND, DemoWorker};

/// Arguments of the demo.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  pillarbox demo

A shop writes orders and their events, a transaction each, to one SQLite file. Two processes deliver the events by
HTTP to a receiver that fails now and then; one of them is killed. Nothing is lost, and each account's orders arrive
in order. Takes about 10 seconds.")]
pub struct Demo {
    /// Write this many events
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(EVENTS))]
    events: u64,
    /// Seed of the random orders: the same seed gives the same orders
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the database and print its path
    #[arg(long)]
    keep: bool,
    /// Create the database in this folder and keep it
    #[arg(long, conflicts_with = "keep")]
    dir: Option<PathBuf>,
    /// Keep running until Ctrl-C, and continue to write slowly
    #[arg(long)]
    serve: bool,
}

impl Demo {
    /// Runs the demo and prints a summary.
    pub async fn run(self, output: Output) -> CommandResult {
        let mut interrupts = Interrupts::listen()?;
        let plan = Plan::new(self.events, self.seed);
        let folder = self.folder()?;
        let store = SqliteStore::open(folder.database())?;
        store.admin().migrate().await?;
        let receiver = Receiver::new(plan.seed);
        let server = receiver::open(Arc::clone(&receiver)).await?;
        let shop = Arc::new(Shop::open(store, Arc::clone(&receiver), plan.accounts).await?);
        let database = folder.database();
        let orders = Orders { database: &database, receiver: server.address, lease: plan.lease };

        let mut screen = Screen::new(output, plan.events);
        screen.tell(&format!(
            "a shop writes {} orders of {} accounts to {}",
            count(plan.events),
            plan.accounts,
            database.display()
        ));
        let mut story = Story {
            plan: &plan,
            shop: Arc::clone(&shop),
            receiver: Arc::clone(&receiver),
            orders,
            screen: &mut screen,
        };
        let mut ending = tokio::select! {
            ending = story.play() => ending?,
            () = interrupts.come() => return Err(CommandError::failed("interrupted")),
        };
        if self.serve {
            serve::stay(&mut screen, &plan, &shop, &mut ending, orders, &mut interrupts).await?;
        }
        for worker in std::mem::take(&mut ending.workers) {
            worker.end().await?;
        }
        let elapsed = screen.elapsed();
        drop(screen);
        let kept = (self.keep || self.dir.is_some()).then_some(database);
        let summary = Summary::new(&plan, &receiver, &ending, elapsed, kept);
        shop.close().await;
        output.note("");
        output.answer(&summary)?;
        if summary.is_perfect() {
            Ok(())
        } else {
            Err(CommandError::failed("the demo did not keep its promises"))
        }
    }

    fn folder(&self) -> CommandResult<DemoFolder> {
        match &self.dir {
            Some(folder) => DemoFolder::in_folder(folder),
            None if self.keep => DemoFolder::kept(),
            None => DemoFolder::temporary(),
        }
    }
}
