//! The course of the demo: writing, failures, a crash, take-over, dead events, repair and replay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::model::Status;
use pillarbox::port::{Replay, Select, Table};
use pillarbox_terminal::error::{CommandError, CommandResult};
use pillarbox_terminal::output::count;
use pillarbox_terminal::output::counted;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::crew::{Orders, Worker};
use crate::plan::Plan;
use crate::receiver::Receiver;
use crate::screen::{Screen, State};
use crate::shop::Shop;

/// The worker that is killed.
pub(crate) const VICTIM: &str = "worker-1";
/// The worker that takes over.
pub(crate) const HEIR: &str = "worker-2";

/// Orders that are missing after this long without a change count as lost.
const STALLED: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The participants of a run.
pub(crate) struct Story<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) shop: Arc<Shop>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) orders: Orders<'a>,
    pub(crate) screen: &'a mut Screen,
}

/// The results that the ledger does not contain.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) delivered_before_kill: u64,
    pub(crate) dead: u64,
    pub(crate) replayed: u64,
    /// The time from the kill until another worker took over an account.
    pub(crate) taken_over: Option<Duration>,
    /// Orders that `--serve` left in the outbox, such as those of a group that a user paused. They are not
    /// lost.
    pub(crate) waiting: u64,
    /// The workers that still run.
    pub(crate) workers: Vec<Worker>,
}

/// The phases of a run.
enum Chapter {
    /// Both workers deliver. Contains the one to kill.
    Peace(Box<Worker>),
    /// One worker was killed, and the receiver can't read some orders.
    Crash,
    /// The receiver was repaired, and the dead events were replayed.
    Repaired,
    /// All orders have arrived.
    End,
}

impl Story<'_> {
    /// Runs until all orders have arrived, or nothing has changed for [`STALLED`].
    pub(crate) async fn play(&mut self) -> CommandResult<Ending> {
        let mut ending = Ending::default();
        let mut chapter = Chapter::Peace(Box::new(self.hire(VICTIM).await?));
        ending.workers.push(self.hire(HEIR).await?);
        let mut writing = JoinSet::new();
        writing.spawn(Arc::clone(&self.shop).place_all(self.plan.clone()));

        let mut looks = looks();
        let mut last = (State::default(), Instant::now());
        while !matches!(chapter, Chapter::End) {
            looks.tick().await;
            if let Some(ended) = writing.try_join_next() {
                ended.map_err(|_| CommandError::failed("the shop's code panicked"))??;
                self.screen.tell(&format!("all {} orders are written", count(self.plan.events)));
            }
            let state = self.look(&mut ending, &chapter).await?;
            self.screen.show(state);
            if state != last.0 {
                last = (state, Instant::now());
            } else if last.1.elapsed() > STALLED {
                break;
            }
            chapter = self.next(chapter, state, &mut ending).await?;
        }
        Ok(ending)
    }

    async fn next(&self, chapter: Chapter, state: State, ending: &mut Ending) -> CommandResult<Chapter> {
        Ok(match chapter {
            Chapter::Peace(victim) if state.counts.delivered >= self.plan.kill_after() => {
                ending.delivered_before_kill = state.counts.delivered;
                self.kill(*victim).await?;
                Chapter::Crash
            }
            Chapter::Crash if state.counts.written == self.plan.events && self.is_stuck(state) => {
                ending.replayed = self.repair_and_replay(ending).await?;
                Chapter::Repaired
            }
            Chapter::Repaired if self.receiver.ledger(|ledger| ledger.lost()) == 0 => Chapter::End,
            same => same,
        })
    }

    async fn hire(&self, label: &str) -> CommandResult<Worker> {
        let worker = Worker::start(label, self.orders).await?;
        let to = self.orders.receiver;
        self.screen.tell(&format!("{label} (process {}) delivers their events to http://{to}", worker.pid()));
        Ok(worker)
    }

    async fn look(&self, ending: &mut Ending, chapter: &Chapter) -> CommandResult<State> {
        if !matches!(chapter, Chapter::Repaired) {
            ending.dead = self.shop.store().admin().count(the_dead()).await?;
        }
        let (counts, taken_over) = self.receiver.ledger(|ledger| (ledger.counts(), ledger.taken_over()));
        if ending.taken_over.is_none()
            && let Some(after) = taken_over
        {
            self.screen
                .tell(&format!("{HEIR} goes on with its accounts, {:.1} s later", after.as_secs_f64()));
            ending.taken_over = taken_over;
        }
        Ok(State { counts, dead: ending.dead, replayed: ending.replayed })
    }

    async fn kill(&self, victim: Worker) -> CommandResult {
        self.receiver.ledger(|ledger| ledger.killed(&victim.label));
        victim.kill().await?;
        self.screen.tell(&format!("{VICTIM} is killed (SIGKILL), in the middle of its deliveries"));
        Ok(())
    }

    /// Whether all deliverable orders have arrived and the rest waits behind dead events.
    fn is_stuck(&self, state: State) -> bool {
        let (deliverable, stuck) =
            self.receiver.ledger(|ledger| (ledger.deliverable_unrepaired(), ledger.stuck_accounts()));
        state.counts.delivered >= deliverable && state.dead >= stuck
    }

    async fn repair_and_replay(&self, ending: &Ending) -> CommandResult<u64> {
        let waiting = self.receiver.ledger(|ledger| ledger.lost());
        let dead = counted(ending.dead, "event");
        self.screen
            .tell(&format!("{dead} dead, {} behind them wait for an operator", count(waiting - ending.dead)));
        self.receiver.repair();
        let replay =
            Replay { select: the_dead(), limit: ending.dead as usize, by: "demo".to_owned(), now: None };
        let replayed = self.shop.store().admin().replay(replay).await?;
        self.screen.tell(&format!("the receiver is repaired, {} replayed", counted(replayed, "event")));
        Ok(replayed)
    }
}

fn the_dead() -> Select {
    Select { statuses: vec![Status::Dead], ..Select::default() }
}

fn looks() -> Interval {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}
