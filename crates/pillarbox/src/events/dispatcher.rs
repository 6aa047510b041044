//! The dispatcher: bounded queues and workers for events that a caller passes in.

use std::sync::Arc;

use tokio::time::Instant;

use super::deliver::ListenerSink;
use super::poller::{PollHandler, Polled};
use super::{InFlightSet, InFlightTracker, Interceptor, ListenerRegistry};
use crate::engine::{Core, Engine, EngineParts, EngineSettings, Shared};
use crate::model::{Invalid, OwnerId, Row, Slot, Status, Token};
use crate::port::{DeliveryPath, Fence, MetricsExporter, NoMetrics, Sink, Store};

/// Configures a [`Dispatcher`].
pub struct DispatcherBuilder {
    store: Arc<dyn Store>,
    registry: Arc<dyn ListenerRegistry>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    tracker: Arc<dyn InFlightTracker>,
    metrics: Arc<dyn MetricsExporter>,
    settings: EngineSettings,
    fence: Fence,
}

impl DispatcherBuilder {
    /// Replaces the engine settings: workers, capacities, attempts, retry policy, drain time and others.
    #[must_use]
    pub fn settings(mut self, settings: EngineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds an interceptor; `before` runs in the order of registration, `after` in reverse order.
    #[must_use]
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Adds several interceptors in this order, after those added before.
    #[must_use]
    pub fn interceptors(mut self, interceptors: impl IntoIterator<Item = Arc<dyn Interceptor>>) -> Self {
        self.interceptors.extend(interceptors);
        self
    }

    /// Replaces the in-flight tracker, which prevents concurrent deliveries
    /// of one event. Default: [`InFlightSet`].
    #[must_use]
    pub fn in_flight(mut self, tracker: Arc<dyn InFlightTracker>) -> Self {
        self.tracker = tracker;
        self
    }

    /// Sets the receiver of counters and gauges. Default: none.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<dyn MetricsExporter>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Settles outcomes under this owner's claims, for events that a poller claimed. Default: no fence.
    #[must_use]
    pub fn claimed_by(mut self, owner: OwnerId) -> Self {
        self.fence = Fence::Owner(owner);
        self
    }

    /// Checks the settings and starts the workers. Must be called within a Tokio runtime.
    pub fn start(self) -> Result<Dispatcher, Invalid> {
        self.settings.validate()?;
        let sink: Arc<dyn Sink> = Arc::new(ListenerSink {
            registry: self.registry,
            interceptors: self.interceptors,
            tracker: self.tracker,
            breakers: Default::default(),
        });
        let seed = OwnerId::random()
            .as_str()
            .bytes()
            .fold(0_u64, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let parts = EngineParts {
            table: self.store.into(),
            sink,
            metrics: self.metrics,
            settings: self.settings,
            seed,
        };
        let shared = parts.shared();
        shared.with(|core| core.settle_by(self.fence));
        let engine = Engine::dispatcher(Arc::clone(&shared));
        Ok(Dispatcher { shared, engine: tokio::sync::Mutex::new(engine) })
    }
}

/// Delivers the events that a caller passes in to listeners, and settles them.
///
/// Usable without an outbox; as a [`PollHandler`] it receives the events of a poller.
pub struct Dispatcher {
    shared: Arc<Shared>,
    engine: tokio::sync::Mutex<Engine>,
}

impl Dispatcher {
    /// Configures a dispatcher that settles on this store and finds listeners in this registry.
    #[must_use]
    pub fn builder(store: Arc<dyn Store>, registry: impl ListenerRegistry) -> DispatcherBuilder {
        DispatcherBuilder {
            store,
            registry: Arc::new(registry),
            interceptors: Vec::new(),
            tracker: Arc::new(InFlightSet::new()),
            metrics: Arc::new(NoMetrics),
            settings: EngineSettings::default(),
            fence: Fence::Open,
        }
    }

    /// Adds an event to the hot queue. Returns false if the queue is full or the dispatcher is closing.
    pub fn enqueue_hot(&self, polled: Polled) -> bool {
        self.shared.with(|core| core.hand_in(row(polled), DeliveryPath::Hot, Instant::now()))
    }

    /// Adds an event to the cold queue. Returns false if the queue is full or the dispatcher is closing.
    pub fn enqueue_cold(&self, polled: Polled) -> bool {
        self.shared.with(|core| core.hand_in(row(polled), DeliveryPath::Cold, Instant::now()))
    }

    /// Number of events that the cold queue has room for.
    #[must_use]
    pub fn cold_room(&self) -> usize {
        self.shared.with(|core| core.cold_room().0)
    }

    /// Stops intake, keeps delivering for at most the drain time, then stops. Idempotent.
    pub async fn close(&self) {
        self.engine.lock().await.close().await;
    }
}

impl PollHandler for Dispatcher {
    fn handle(&self, polled: Polled) -> bool {
        self.enqueue_cold(polled)
    }

    fn available(&self) -> usize {
        self.cold_room()
    }

    fn records_lapsed(&self) -> bool {
        true
    }

    fn poll_begins(&self) {
        self.shared.with(Core::poll_begins);
    }

    fn poll_over(&self) {
        self.shared.with(Core::poll_over);
    }
}

fn row(polled: Polled) -> Row {
    let now = polled.event.occurred_at();
    Row {
        seq: polled.seq,
        id: polled.event.id().clone(),
        slot: Slot(0),
        status: Status::New,
        attempts: polled.attempts,
        created_at: now,
        available_at: now,
        expires_at: None,
        token: polled.token,
        last_error: None,
        lapsed: polled.lapsed && polled.token != Token::default(),
        group: None,
        bytes: polled.event.size(),
        event: Ok(polled.event),
    }
}
