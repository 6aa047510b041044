//! The store as one process sees it: calls fail, take long, are held up, or are its last.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use pillarbox::model::{NodeId, Row, Written};
use pillarbox::port::{
    Admin, Claim, DueTopics, ErrorKind, Facts, Fetch, Fetched, Heartbeat, ItemStore, Membership, Promote,
    Promoted, Reap, Recover, Register, Settle, Settled, Store, StoreError, StoreFuture, Table, Take, Taken,
    Wakeups, Write,
};
use tokio::sync::{oneshot, watch};

use crate::chance::{Chance, pass};
use crate::doom::Doom;
use crate::effect;
use crate::faults::{Fate, Op, When};
use crate::gate::Gate;
use crate::history::Life;
use crate::under_way;
use crate::world::World;

/// One process's way to the store.
pub(crate) struct NodeStore {
    world: Arc<World>,
    life: Life,
    gate: Arc<Gate>,
    doom: Arc<Doom>,
    hints: Mutex<Option<watch::Receiver<u64>>>,
}

impl NodeStore {
    pub(crate) fn new(world: &Arc<World>, life: Life, gate: &Arc<Gate>, doom: &Arc<Doom>) -> Self {
        Self {
            hints: Mutex::new(world.wakeups()),
            world: Arc::clone(world),
            life,
            gate: Arc::clone(gate),
            doom: Arc::clone(doom),
        }
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// A call whose request may outlive the process.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        op: Op,
        effect: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (fate, doom) = self.ask(op).await;
        let request = request(Arc::clone(&self.world), op, fate, effect);
        let answer = if fate.detached { self.detach(request).await } else { request.await };
        self.answer(op, fate, doom, answer).await
    }

    /// A call whose request ends with the process.
    pub(crate) async fn call_here<T>(
        &self,
        op: Op,
        effect: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (fate, doom) = self.ask(op).await;
        let answer = request(Arc::clone(&self.world), op, fate, effect).await;
        self.answer(op, fate, doom, answer).await
    }

    async fn ask(&self, op: Op) -> (Fate, Option<When>) {
        let fate = self.world.fate(self.life, op);
        let doom = self.doom.count();
        self.gate.pass().await;
        if doom == Some(When::Before) {
            self.world.reached(op.name(), "crash before effect");
            self.doom.strike().await;
        }
        (fate, doom)
    }

    async fn answer<T>(
        &self,
        op: Op,
        fate: Fate,
        doom: Option<When>,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if doom == Some(When::After) {
            self.world.reached(op.name(), "crash after effect");
            self.doom.strike().await;
        }
        pass(fate.back).await;
        self.gate.pass().await;
        answer
    }

    /// The request goes on when its sender is gone.
    async fn detach<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, answer) = oneshot::channel();
        self.world.servers.spawn(async move {
            let _ = sender.send(request.await);
        });
        answer.await.expect("a request is answered")
    }
}

async fn request<T>(
    world: Arc<World>,
    op: Op,
    fate: Fate,
    effect: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    pass(fate.there).await;
    if !fate.there.is_zero() || !fate.back.is_zero() {
        world.reached(op.name(), "slow");
    }
    if fate.there + fate.back >= world.plan.tuning.lease {
        world.reached(op.name(), "longer than a lease");
    }
    if fate.fails == Some(When::Before) {
        world.reached(op.name(), "error before effect");
        return Err(StoreError::new(ErrorKind::Unavailable, op.name(), "simulated", "down"));
    }
    let answer = effect.await;
    if fate.fails == Some(When::After) {
        world.reached(op.name(), "error after effect");
        return Err(StoreError::new(ErrorKind::Timeout, op.name(), "simulated", "answer lost"));
    }
    answer
}

impl ItemStore for NodeStore {
    fn take(&self, request: Take) -> StoreFuture<'_, Taken> {
        let world = Arc::clone(&self.world);
        Box::pin(self.call(Op::Take, async move { world.store.take(request).await }))
    }

    fn recover(&self, request: Recover) -> StoreFuture<'_, u64> {
        let world = Arc::clone(&self.world);
        Box::pin(self.call(Op::Recover, async move {
            let given_back = world.store.recover(request).await?;
            if given_back > 0 {
                world.reached("leader", "gives back what another had in hand");
            }
            Ok(given_back)
        }))
    }
}

impl Table for NodeStore {
    fn facts(&self) -> &Facts {
        self.world.store.facts()
    }

    fn now(&self) -> StoreFuture<'_, Timestamp> {
        self.world.store.now()
    }

    fn settle(&self, request: Settle) -> StoreFuture<'_, Settled> {
        let under_way = under_way::Call::begin(&self.world, &request);
        let settled = self.call(Op::Settle, effect::settle(Arc::clone(&self.world), request));
        Box::pin(async move {
            let settled = settled.await;
            under_way.answered(&settled);
            settled
        })
    }

    fn register(&self, request: Register) -> StoreFuture<'_, Membership> {
        Box::pin(self.call(Op::Register, effect::join(Arc::clone(&self.world), self.life, request)))
    }

    fn heartbeat(&self, request: Heartbeat) -> StoreFuture<'_, Option<Membership>> {
        Box::pin(self.call(Op::Heartbeat, effect::heartbeat(Arc::clone(&self.world), request)))
    }

    fn leave(&self, node: NodeId) -> StoreFuture<'_, ()> {
        Box::pin(self.call(Op::Leave, effect::leave(Arc::clone(&self.world), node)))
    }

    fn write(&self, request: Write) -> StoreFuture<'_, Vec<Written>> {
        self.world.store.write(request)
    }

    fn admin(&self) -> &dyn Admin {
        self.world.store.admin()
    }

    fn wakeups(&self) -> Option<Wakeups> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner).take().map(Wakeups)
    }
}

impl Store for NodeStore {
    fn fetch(&self, request: Fetch) -> StoreFuture<'_, Fetched> {
        Box::pin(self.call(Op::Fetch, effect::fetch(Arc::clone(&self.world), request)))
    }

    fn claim(&self, request: Claim) -> StoreFuture<'_, Vec<Row>> {
        self.world.store.claim(request)
    }

    fn due_topics(&self, request: DueTopics) -> StoreFuture<'_, Vec<String>> {
        self.world.store.due_topics(request)
    }

    fn reap(&self, request: Reap) -> StoreFuture<'_, u64> {
        self.world.store.reap(request)
    }

    fn promote(&self, mut request: Promote) -> StoreFuture<'_, Promoted> {
        let world = &self.world;
        if world.in_trouble() && world.draw(|rng| rng.chance(world.plan.store.locked)) {
            request.rows = 0;
        }
        Box::pin(self.call(Op::Promote, effect::promote(Arc::clone(&self.world), request)))
    }
}
