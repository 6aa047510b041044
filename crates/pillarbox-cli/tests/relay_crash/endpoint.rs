//! The endpoint: takes batches, fails now and then, and remembers what arrived in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::attempts::Tries;

/// The most items of one request.
const LARGEST_BATCH: usize = 100;

/// How the endpoint behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Takes everything.
    Good,
    /// Fails one request in twenty, in one of three ways.
    Moody,
}

/// What the endpoint answers for items that it took.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Accepted,
    Refused,
}

#[derive(Deserialize)]
struct Item {
    group: usize,
    number: usize,
}

/// An item: its group and its number within it.
pub(crate) type Number = (usize, usize);

/// A relay that was killed or stopped.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The number of items that had arrived before it.
    pub(crate) from: usize,
    /// The number of items that had arrived when the pending ones were read.
    pub(crate) counted: usize,
    /// The number of arrivals after which nothing is repeated because of it. A relay that was stopped sends later what it held.
    pub(crate) until: usize,
    /// The items that were pending then.
    pub(crate) pending: BTreeSet<Number>,
}

#[derive(Debug, Default)]
struct Arrived {
    /// The number of items that have arrived, repetitions included.
    count: usize,
    /// When each item came, as a count.
    times: BTreeMap<Number, Vec<usize>>,
    /// The arrivals that were answered with a failure.
    refused: BTreeSet<usize>,
    /// How many requests with each item were answered with a failure of that item.
    failures: BTreeMap<Number, usize>,
    /// The last number that came for the first time, by group.
    last: BTreeMap<usize, usize>,
    wrong: Vec<String>,
}

struct Shared {
    arrived: Mutex<Arrived>,
    count: watch::Sender<usize>,
    manners: Manners,
    random: Mutex<fastrand::Rng>,
}

/// A running endpoint.
pub(crate) struct Endpoint {
    shared: Arc<Shared>,
    pub(crate) url: String,
    _server: JoinSet<()>,
}

impl Endpoint {
    pub(crate) async fn start(manners: Manners) -> Self {
        let shared = Arc::new(Shared {
            arrived: Mutex::default(),
            count: watch::Sender::new(0),
            manners,
            random: Mutex::new(fastrand::Rng::with_seed(7)),
        });
        let router = Router::new().route("/api/events/batch", post(serve)).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { shared, url, _server: server }
    }

    /// Waits until so many different items have arrived.
    pub(crate) async fn until_accepted(&self, count: usize, most: Duration) -> Result<(), String> {
        let mut arrived = self.shared.count.subscribe();
        let waited = tokio::time::timeout(most, arrived.wait_for(|seen| *seen >= count)).await;
        match waited {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("only {} of {count} items arrived", *self.shared.count.borrow())),
        }
    }

    /// Waits for the next item that comes for the first time.
    pub(crate) async fn until_another(&self) {
        let seen = *self.shared.count.borrow();
        let mut arrived = self.shared.count.subscribe();
        arrived.wait_for(|count| *count > seen).await.expect("the endpoint is there");
    }

    /// Every item came, and those of a group came in order the first time.
    pub(crate) fn check(&self, items: usize) -> Result<(), String> {
        let arrived = self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        if arrived.times.len() != items {
            return Err(format!("{} of {items} items arrived", arrived.times.len()));
        }
        match arrived.wrong.first() {
            Some(first) => Err(format!("{} times something was wrong, first: {first}", arrived.wrong.len())),
            None => Ok(()),
        }
    }

    pub(crate) fn check_each_once(&self) -> Result<(), String> {
        let arrived = self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let twice: Vec<_> = arrived.times.iter().filter(|(_, times)| times.len() > 1).collect();
        match twice.first() {
            Some(first) => Err(format!("{} items came more than once, {first:?} first", twice.len())),
            None => Ok(()),
        }
    }

    /// What the endpoint did with each item that arrived.
    pub(crate) fn tries(&self) -> BTreeMap<Number, Tries> {
        let arrived = self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = |(item, times): (&Number, &Vec<usize>)| {
            let accepted = times.iter().filter(|at| !arrived.refused.contains(at)).count();
            let refused = arrived.failures.get(item).copied().unwrap_or_default();
            (*item, Tries { attempts: 0, refused, accepted })
        };
        arrived.times.iter().map(tries).collect()
    }

    /// Adds to each fault what arrived while its pending items were being read: it was pending, too.
    pub(crate) fn complete(&self, faults: &mut [Fault]) {
        let arrived = self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        for fault in faults {
            let meanwhile = |at: &usize| fault.from < *at && *at <= fault.counted;
            let items = arrived.times.iter().filter(|(_, times)| times.iter().any(meanwhile));
            let items: Vec<Number> = items.map(|(item, _)| *item).collect();
            fault.pending.extend(items);
        }
    }

    /// The number of items that have arrived so far, repetitions included.
    pub(crate) fn arrivals(&self) -> usize {
        self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// An item comes again only if its request was refused, or if it was still pending right after a relay was killed or stopped.
    pub(crate) fn check_repeated(&self, faults: &[Fault]) -> Result<(), String> {
        let arrived = self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let explained = |item: &Number, first: usize, again: usize| {
            arrived.refused.contains(&first)
                || faults.iter().any(|fault| {
                    first <= fault.until
                        && fault.from < again
                        && (again <= fault.counted || fault.pending.contains(item))
                })
        };
        let pairs =
            arrived.times.iter().flat_map(|(item, times)| times.windows(2).map(move |pair| (item, pair)));
        let wrong: Vec<_> = pairs.filter(|(item, pair)| !explained(item, pair[0], pair[1])).collect();
        match wrong.first() {
            Some(first) => Err(format!("{} items came again for no reason, {first:?} first", wrong.len())),
            None => Ok(()),
        }
    }
}

async fn serve(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let Ok(items) = serde_json::from_slice::<Vec<Item>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mood = match shared.manners {
        Manners::Good => 100,
        Manners::Moody => shared.random.lock().unwrap_or_else(PoisonError::into_inner).u32(..100),
    };
    match mood {
        0..2 => {
            shared.fail(&items);
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        2..3 => {
            shared.take(&items, items.len(), Answer::Refused);
            shared.fail(&items);
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
        3..5 => {
            let taken = items.len() / 2;
            shared.take(&items, taken, Answer::Accepted);
            shared.fail(&items[taken..]);
            let status = |place| if place < taken { 200 } else { 503 };
            let results: Vec<_> =
                (0..items.len()).map(|place| serde_json::json!({ "status": status(place) })).collect();
            (StatusCode::MULTI_STATUS, serde_json::json!({ "results": results }).to_string()).into_response()
        }
        _ => {
            shared.take(&items, items.len(), Answer::Accepted);
            StatusCode::OK.into_response()
        }
    }
}

impl Shared {
    /// Notes that the request of these items is answered with a failure.
    fn fail(&self, items: &[Item]) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        for item in items {
            *arrived.failures.entry((item.group, item.number)).or_default() += 1;
        }
    }

    /// Takes the first items of a request.
    fn take(&self, items: &[Item], count: usize, answer: Answer) {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() > LARGEST_BATCH {
            arrived.wrong.push(format!("a batch of {}", items.len()));
        }
        if items.iter().any(|item| item.group != items[0].group) {
            arrived.wrong.push("a batch of several groups".to_owned());
        }
        for item in &items[..count] {
            arrived.count += 1;
            let at = arrived.count;
            if answer == Answer::Refused {
                arrived.refused.insert(at);
            }
            let times = arrived.times.entry((item.group, item.number)).or_default();
            times.push(at);
            if times.len() > 1 {
                continue;
            }
            let before = arrived.last.insert(item.group, item.number);
            if before.is_some_and(|before| before > item.number) {
                let wrong = format!("group {}: {} after {before:?}", item.group, item.number);
                arrived.wrong.push(wrong);
            }
        }
        self.count.send_replace(arrived.times.len());
    }
}
