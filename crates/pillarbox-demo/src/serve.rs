//! `--serve`: keeps the demo running until it is interrupted, and continues to write slowly.

use std::time::Duration;

use pillarbox::port::Table;
use pillarbox_terminal::error::CommandResult;
use pillarbox_terminal::interrupts::Interrupts;
use pillarbox_terminal::pipe;
use tokio::time::interval;

use crate::crew::{Orders, Worker};
use crate::plan::{self, Plan};
use crate::screen::{Screen, State};
use crate::shop::Shop;
use crate::story::Ending;

const ORDER_EVERY: Duration = Duration::from_millis(200);
/// How long the last orders have to arrive.
const TO_ARRIVE: Duration = Duration::from_secs(10);

/// Starts a worker in place of the killed one, and writes orders until an interrupt.
pub(crate) async fn stay(
    screen: &mut Screen,
    plan: &Plan,
    shop: &Shop,
    ending: &mut Ending,
    orders: Orders<'_>,
    interrupts: &mut Interrupts,
) -> CommandResult {
    ending.workers.push(Worker::start("worker-3", orders).await?);
    screen.tell("worker-3 has joined; five orders are placed each second until Ctrl-C. Look at it with");
    screen.tell(&format!("  pillarbox stats --watch --url sqlite:{}", orders.database.display()));
    go_on(screen, plan, shop, ending, interrupts).await?;
    screen.tell("interrupted: the last orders are delivered");
    shop.receiver().all_arrived(TO_ARRIVE).await;
    let stats = shop.store().admin().stats().await?;
    ending.waiting = stats.events.pending() + stats.events.dead;
    Ok(())
}

async fn go_on(
    screen: &mut Screen,
    plan: &Plan,
    shop: &Shop,
    ending: &Ending,
    interrupts: &mut Interrupts,
) -> CommandResult {
    let mut rng = fastrand::Rng::with_seed(plan.seed ^ u64::MAX);
    let mut ticks = interval(ORDER_EVERY);
    loop {
        tokio::select! {
            // The order is awaited inside the branch, so an interrupt never cancels it: the ledger must know
            // its result.
            _ = ticks.tick() => shop.place(plan::any(&mut rng, plan.accounts)).await?,
            () = interrupts.come() => return Ok(()),
            () = pipe::reader_gone() => return Ok(()),
        }
        let counts = shop.receiver().ledger(|ledger| ledger.counts());
        screen.show(State { counts, dead: ending.dead, replayed: ending.replayed });
    }
}
