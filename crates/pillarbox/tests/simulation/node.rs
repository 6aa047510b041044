//! A process: starts, freezes, crashes, closes, starts again.

use std::sync::Arc;

use crate::chance::{Chance, pass};
use crate::doom::Doom;
use crate::gate::Gate;
use crate::history::{Life, What};
use crate::running::Running;
use crate::sink::NodeSink;
use crate::store::NodeStore;
use crate::world::World;

/// One start of an engine, and what it goes through.
struct Process {
    world: Arc<World>,
    life: Life,
    gate: Arc<Gate>,
    doom: Arc<Doom>,
}

/// What happens to it next.
enum Turn {
    Struck,
    Over,
    Step,
}

/// Keeps one process after another running until the script is over.
pub(crate) async fn run(world: Arc<World>, first: bool) {
    if !first {
        pass(world.some_time(0.6)).await;
    }
    while !world.is_over() {
        let process = Process::new(&world);
        if let Some(running) = process.start().await {
            process.live(running).await;
        }
        let lease = world.plan.tuning.lease.as_millis() as u64;
        pass(world.draw(|rng| rng.millis(1, lease * 2))).await;
    }
}

impl Process {
    fn new(world: &Arc<World>) -> Self {
        let process = Self {
            life: world.new_life(),
            world: Arc::clone(world),
            gate: Arc::default(),
            doom: Arc::default(),
        };
        process.doom_within(60);
        process
    }

    fn doom_within(&self, calls: u64) {
        let share = self.world.plan.incidents.counted_crash;
        self.world.draw(|rng| {
            if self.world.in_trouble() && rng.chance(share) {
                self.doom.arm(rng, calls);
            }
        });
    }

    async fn start(&self) -> Option<Running> {
        let Self { world, life, gate, doom } = self;
        let store = NodeStore::new(world, *life, gate, doom);
        let sink = NodeSink {
            world: Arc::clone(world),
            life: *life,
            gate: Arc::clone(gate),
            doom: Arc::clone(doom),
        };
        let started = tokio::select! {
            biased;
            () = doom.struck.notified() => None,
            started = Running::start(world, store, sink) => Some(started),
        };
        match started {
            Some(Ok(running)) => Some(running),
            Some(Err(error)) => {
                world.record(What::Note(format!("{life} can't start: {error}")));
                None
            }
            None => {
                world.record(What::Ended { life: *life, how: "crashes while it starts" });
                None
            }
        }
    }

    async fn live(&self, mut running: Running) {
        loop {
            match self.turn().await {
                Turn::Struck => return self.crash(running, "crashes at a call"),
                Turn::Over => return self.close(running).await,
                Turn::Step if !self.world.in_trouble() => {}
                Turn::Step => match self.incident().await {
                    Incident::None => {}
                    Incident::Crash => return self.crash(running, "crashes"),
                    Incident::Close => return self.close(running).await,
                    Incident::Freeze => running = self.freeze(running).await,
                },
            }
        }
    }

    async fn turn(&self) -> Turn {
        let step = self.world.draw(|rng| rng.millis(20, 3_000));
        let over = self.world.over.notified();
        if self.world.is_over() {
            return Turn::Over;
        }
        tokio::select! {
            biased;
            () = self.doom.struck.notified() => Turn::Struck,
            () = over => Turn::Over,
            () = pass(step) => Turn::Step,
        }
    }

    async fn incident(&self) -> Incident {
        let odds = &self.world.plan.incidents;
        self.world.draw(|rng| {
            let drawn = [
                (odds.crash, Incident::Crash),
                (odds.close, Incident::Close),
                (odds.freeze, Incident::Freeze),
            ];
            let drawn = drawn.into_iter().find(|(share, _)| rng.chance(*share));
            drawn.map_or(Incident::None, |(_, incident)| incident)
        })
    }

    fn crash(&self, running: Running, how: &'static str) {
        self.world.record(What::Ended { life: self.life, how });
        drop(running);
    }

    async fn close(&self, mut running: Running) {
        self.world.record(What::Note(format!("{} closes", self.life)));
        let calm = !self.world.in_trouble();
        self.doom_within(4);
        let closed = tokio::select! {
            biased;
            () = self.doom.struck.notified() => false,
            () = running.close() => true,
        };
        let how = if closed { "has closed" } else { "crashes while it closes" };
        if calm && closed {
            self.world.closed(self.life);
        }
        self.world.reached("node", if closed { "closed" } else { "crashed while closing" });
        self.world.record(What::Ended { life: self.life, how });
    }

    /// Holds up every call for about as long as a lease, often longer.
    async fn freeze(&self, running: Running) -> Running {
        self.world.record(What::Froze { life: self.life });
        let lease = self.world.plan.tuning.lease.as_millis() as u64;
        self.gate.shut();
        let time = self.world.draw(|rng| rng.millis(lease / 4, lease * 3));
        pass(time).await;
        self.gate.open();
        self.world.record(What::Thawed { life: self.life });
        let fact = if time > self.world.plan.tuning.lease { "frozen beyond its lease" } else { "frozen" };
        self.world.reached("node", fact);
        running
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Incident {
    None,
    Crash,
    Close,
    Freeze,
}
