//! The receiver: a local HTTP server that accepts orders, fails now and then, and keeps the ledger.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::ledger::{Ledger, Order};

/// The header that names the worker.
pub(crate) const WORKER: &str = "x-demo-worker";
/// The path that accepts orders.
pub(crate) const PATH: &str = "/orders";

/// Delay between accepting an order and answering. A worker killed in between has delivered without knowing
/// it.
const ANSWER_DELAY: Duration = Duration::from_millis(4);
/// One of this many orders is refused the first time.
const REFUSED_FIRST: u64 = 20;

#[derive(Debug)]
struct ReceiverState {
    ledger: Ledger,
    repaired: bool,
    /// Orders that were refused once.
    refused: HashSet<(u32, u64)>,
}

/// The receiver, shared with the story that watches it.
#[derive(Debug)]
pub(crate) struct Receiver {
    state: Mutex<ReceiverState>,
    seed: u64,
    /// Changes with every request, to wake watchers.
    news: watch::Sender<u64>,
}

impl Receiver {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = ReceiverState { ledger: Ledger::default(), repaired: false, refused: HashSet::new() };
        Arc::new(Self { state: Mutex::new(state), seed, news: watch::Sender::new(0) })
    }

    /// Reads or changes the ledger.
    pub(crate) fn ledger<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(&mut self.lock().ledger)
    }

    /// Waits until all committed orders have arrived, at most this long.
    pub(crate) async fn all_arrived(&self, patience: Duration) {
        let mut news = self.news();
        let waiting =
            async { while self.ledger(|ledger| ledger.lost()) > 0 && news.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(patience, waiting).await;
    }

    /// Makes the receiver accept every order from now on.
    pub(crate) fn repair(&self) {
        self.lock().repaired = true;
    }

    /// A channel that changes with every request.
    fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, ReceiverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, order: &Order, worker: &str) -> StatusCode {
        let mut state = self.lock();
        let key = (order.account, order.number);
        let status = if order.cents < 0 && !state.repaired {
            state.ledger.rejected();
            StatusCode::UNPROCESSABLE_ENTITY
        } else if self.is_flaky(order) && state.refused.insert(key) {
            state.ledger.refused_for_now();
            StatusCode::INTERNAL_SERVER_ERROR
        } else {
            state.ledger.arrived(order, worker);
            StatusCode::NO_CONTENT
        };
        drop(state);
        self.news.send_modify(|count| *count += 1);
        status
    }

    fn is_flaky(&self, order: &Order) -> bool {
        let mixed = self.seed ^ u64::from(order.account) << 32 ^ order.number;
        fastrand::Rng::with_seed(mixed).u64(0..REFUSED_FIRST) == 0
    }
}

/// The running server. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
    _task: JoinSet<io::Result<()>>,
}

/// Starts the receiver on a free port of the loopback address.
pub(crate) async fn open(receiver: Arc<Receiver>) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let router = Router::new().route(PATH, post(accept)).with_state(receiver);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let serve = axum::serve(listener, router);
        tokio::select! {
            ended = serve => ended,
            _ = stopped => Ok(()),
        }
    });
    Ok(Server { address, _stop: stop, _task: task })
}

async fn accept(State(receiver): State<Arc<Receiver>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let Ok(order) = serde_json::from_slice::<Order>(&body) else { return StatusCode::BAD_REQUEST };
    let worker = headers.get(WORKER).and_then(|name| name.to_str().ok()).unwrap_or("unknown");
    let status = receiver.take(&order, worker);
    tokio::time::sleep(ANSWER_DELAY).await;
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(number: u64, cents: i64) -> Order {
        Order { account: 1, number, cents, refused: false }
    }

    #[test]
    fn what_it_can_not_read_is_rejected_until_it_is_repaired() {
        let receiver = Receiver::new(1);
        let steady = (1..).map(|number| order(number, -1)).find(|order| !receiver.is_flaky(order)).unwrap();
        assert_eq!(receiver.take(&steady, "a"), StatusCode::UNPROCESSABLE_ENTITY);
        receiver.repair();
        assert_eq!(receiver.take(&steady, "a"), StatusCode::NO_CONTENT);
        assert_eq!(receiver.ledger(|ledger| ledger.counts().rejected), 1);
    }

    #[test]
    fn some_orders_are_refused_exactly_once() {
        let receiver = Receiver::new(1);
        let flaky = (1..).map(|number| order(number, 1)).find(|order| receiver.is_flaky(order)).unwrap();
        assert_eq!(receiver.take(&flaky, "a"), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(receiver.take(&flaky, "a"), StatusCode::NO_CONTENT);
        assert_eq!(receiver.ledger(|ledger| ledger.counts().retried), 1);
    }
}
