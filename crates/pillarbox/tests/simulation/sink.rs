//! The sink: one receiver behind all processes, that refuses, fails, is slow, or takes events and does not say so.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use pillarbox::port::{Delivery, Handed, Sink, Table, Verdict};
use tokio::sync::oneshot;

use crate::chance::{Chance, pass};
use crate::doom::Doom;
use crate::faults::{SinkFaults, When};
use crate::gate::Gate;
use crate::history::{DeliveryNo, EventNo, Life, Said, SentEvent, What};
use crate::truth;
use crate::world::{Nature, World};

/// One process's way to the sink.
pub(crate) struct NodeSink {
    pub(crate) world: Arc<World>,
    pub(crate) life: Life,
    pub(crate) gate: Arc<Gate>,
    pub(crate) doom: Arc<Doom>,
}

/// How the receiver takes one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Accepts,
    Fails,
    Rejects,
    NoRoute,
    Unavailable,
    Throttles,
    AcceptsThenFails,
    AcceptsThenHangs,
    Hangs,
    Panics,
    Kills,
}

/// What comes of a delivery.
enum Served {
    Verdicts(Vec<Verdict>),
    Panic,
    Kill,
}

impl Sink for NodeSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.hand_over(batch))
    }
}

impl NodeSink {
    async fn hand_over(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let delivery = self.world.new_delivery();
        let events = self.send(delivery, batch).await;
        let mut waiting = Waiting { world: &self.world, delivery, over: false };
        let doom = self.doom.count();
        self.gate.pass().await;
        if doom == Some(When::Before) {
            self.world.reached("sink", "crash before it takes");
            self.doom.strike().await;
        }
        let serving = serve(Arc::clone(&self.world), delivery, events);
        let served = if self.world.draw(Rng::bool) { self.detach(serving).await } else { serving.await };
        if doom == Some(When::After) {
            self.world.reached("sink", "crash after it took");
            self.doom.strike().await;
        }
        self.gate.pass().await;
        match served {
            Served::Verdicts(verdicts) => {
                waiting.over = true;
                let said = verdicts.iter().map(said).collect();
                self.world.record(What::Answered { delivery, said });
                verdicts
            }
            Served::Panic => resume_unwind(Box::new("the listener panics")),
            Served::Kill => {
                self.world.reached("sink", "kills the process");
                self.doom.strike().await;
                Vec::new()
            }
        }
    }

    /// Notes what is sent and how its rows stand right now.
    async fn send(&self, delivery: DeliveryNo, batch: &[Delivery]) -> Vec<EventNo> {
        let world = &self.world;
        let admin = world.store.admin();
        let mut events = Vec::new();
        for one in batch {
            let event = world.event(one.event.id());
            let row = truth::row(admin, one.event.id()).await;
            events.push(SentEvent {
                event,
                attempt: one.attempt,
                ours: row.as_ref().is_some_and(|row| world.truth().holds(self.life, row.slot)),
                blocked: truth::is_blocked(admin, world.told(event).group.as_ref()).await,
                row: row.map(|row| row.status),
            });
        }
        let numbers = events.iter().map(|sent| sent.event).collect();
        let member = world.truth().last_member(self.life).expect("only members send");
        world.record(What::Sent { delivery, member, events, clock: world.store.clock().now() });
        numbers
    }

    /// The receiver goes on when the sender is gone.
    async fn detach(&self, serving: impl Future<Output = Served> + Send + 'static) -> Served {
        let (sender, served) = oneshot::channel();
        self.world.servers.spawn(async move {
            let _ = sender.send(serving.await);
        });
        served.await.expect("a delivery is answered")
    }
}

/// Takes events one by one and stops at the first that is not taken.
async fn serve(world: Arc<World>, delivery: DeliveryNo, events: Vec<EventNo>) -> Served {
    let mut verdicts = Vec::new();
    if events.len() > 1 && world.in_trouble() && world.draw(|rng| rng.chance(world.plan.sink.fails)) {
        world.reached("sink", "refuses a batch");
        verdicts.push(Verdict::Refused { error: "one of them is wrong".to_owned() });
        verdicts.resize(events.len(), Verdict::Skipped);
        return Served::Verdicts(verdicts);
    }
    for (place, event) in events.iter().enumerate() {
        pass(slowness(&world)).await;
        let manner = manner(&world, *event);
        if manner == Manner::Unavailable && world.outage.load(Ordering::Relaxed) {
            fail_together(&world).await;
        }
        if matches!(manner, Manner::Accepts | Manner::AcceptsThenFails | Manner::AcceptsThenHangs) {
            world.record(What::Accepted { delivery, event: *event });
        }
        note(&world, manner, place);
        match manner {
            Manner::Accepts => verdicts.push(Verdict::Accepted),
            Manner::Hangs | Manner::AcceptsThenHangs => return std::future::pending().await,
            Manner::Panics => return Served::Panic,
            Manner::Kills => return Served::Kill,
            manner => {
                verdicts.push(refusal(&world, manner, *event));
                verdicts.resize(events.len(), Verdict::Skipped);
                return Served::Verdicts(verdicts);
            }
        }
    }
    Served::Verdicts(verdicts)
}

/// What comes during an outage fails at one moment, so that many deliveries fail at once.
async fn fail_together(world: &World) {
    const BETWEEN: u128 = 200;
    let since = world.now().as_millis() % BETWEEN;
    world.failing.fetch_add(1, Ordering::Relaxed);
    pass(Duration::from_millis((BETWEEN - since) as u64)).await;
    if world.failing.fetch_sub(1, Ordering::Relaxed) > 1 {
        world.reached("sink", "fails several at once");
    }
}

/// Never so slow that a whole batch misses its deadline.
fn slowness(world: &World) -> Duration {
    let (faults, tuning) = (&world.plan.sink, &world.plan.tuning);
    let most = tuning.deadline / (2 * tuning.batch as u32);
    world.draw(
        |rng| {
            if rng.chance(faults.slow) { rng.millis(0, faults.slow_ms).min(most) } else { Duration::ZERO }
        },
    )
}

fn manner(world: &World, event: EventNo) -> Manner {
    match world.told(event).nature {
        Nature::Fails => return Manner::Fails,
        Nature::Refused => return Manner::Rejects,
        Nature::Panics => return Manner::Panics,
        Nature::Kills => return Manner::Kills,
        Nature::Good => {}
    }
    if !world.in_trouble() {
        return Manner::Accepts;
    }
    if world.outage.load(Ordering::Relaxed) {
        return Manner::Unavailable;
    }
    world.draw(|rng| mood(rng, &world.plan.sink))
}

fn mood(rng: &mut Rng, faults: &SinkFaults) -> Manner {
    let moods = [
        (faults.fails, Manner::Fails),
        (faults.rejects, Manner::Rejects),
        (faults.no_route, Manner::NoRoute),
        (faults.unavailable, Manner::Unavailable),
        (faults.throttles, Manner::Throttles),
        (faults.accepts_then_fails, Manner::AcceptsThenFails),
        (faults.accepts_then_hangs, Manner::AcceptsThenHangs),
        (faults.hangs, Manner::Hangs),
        (faults.panics, Manner::Panics),
    ];
    let drawn = moods.into_iter().find(|(share, _)| rng.chance(*share));
    drawn.map_or(Manner::Accepts, |(_, manner)| manner)
}

fn refusal(world: &World, manner: Manner, event: EventNo) -> Verdict {
    let after = world.draw(|rng| rng.chance(0.1).then(|| rng.millis(0, 2_000)));
    match manner {
        Manner::Rejects => Verdict::Rejected { error: "refused".to_owned() },
        Manner::NoRoute => Verdict::NoRoute { route: "nowhere".to_owned() },
        Manner::Unavailable => unavailable(world, event, after),
        Manner::Throttles => Verdict::Throttled { error: "too many requests".to_owned(), after },
        _ => Verdict::Failed { error: "failed".to_owned(), after },
    }
}

/// The whole receiver is down, or only where some of the events go, which may be known before they are sent.
fn unavailable(world: &World, event: EventNo, after: Option<Duration>) -> Verdict {
    let (cause, error) = (Default::default(), "down".to_owned());
    match world.draw(Rng::bool) {
        _ if !event.0.is_multiple_of(3) => Verdict::Unavailable { cause, error, after },
        true => {
            world.reached("sink", "has a route that is shut");
            let after = after.unwrap_or(Duration::from_secs(1));
            Verdict::RouteShut { route: "one of many".to_owned(), after }
        }
        false => {
            world.reached("sink", "has a route that fails");
            Verdict::RouteUnavailable { cause, error, after, accepted: 0 }
        }
    }
}

fn note(world: &World, manner: Manner, place: usize) {
    let fact = match manner {
        Manner::Accepts => "accepts",
        Manner::Fails => "fails",
        Manner::Rejects => "rejects",
        Manner::NoRoute => "has no route",
        Manner::Unavailable => "is unavailable",
        Manner::Throttles => "throttles",
        Manner::AcceptsThenFails => "accepts and says it failed",
        Manner::AcceptsThenHangs => "accepts and never says so",
        Manner::Hangs => "hangs",
        Manner::Panics => "panics",
        Manner::Kills => "kills the process",
    };
    world.reached("sink", fact);
    if place > 0 && manner != Manner::Accepts {
        world.reached("sink", "takes a part of a batch");
    }
}

fn said(verdict: &Verdict) -> Said {
    match verdict {
        Verdict::Accepted => Said::Accepted,
        Verdict::Failed { .. } => Said::Failed,
        Verdict::Rejected { .. } => Said::Rejected,
        Verdict::Unavailable { .. } => Said::Unavailable,
        // A route that has accepted nothing is never at odds with its event.
        Verdict::Throttled { .. } | Verdict::RouteShut { .. } | Verdict::RouteUnavailable { .. } => {
            Said::Throttled
        }
        Verdict::NoRoute { .. } => Said::NoRoute,
        Verdict::Refused { .. } => Said::Refused,
        _ => Said::Skipped,
    }
}

/// Notes when the sender stops waiting, for whatever reason.
struct Waiting<'a> {
    world: &'a World,
    delivery: DeliveryNo,
    over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.world.record(What::Cut { delivery: self.delivery });
        }
    }
}
