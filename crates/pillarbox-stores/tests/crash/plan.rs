//! What a worker is told, and the events it writes and takes.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use pillarbox::events::OutboxBuilder;
use pillarbox::model::EventBuilder;
use pillarbox::port::Store;
use pillarbox::rules::Exponential;
use pillarbox::{AggregateType, Event, EventType, Failure, Outbox};

use crate::journal::{self, What};

/// The word that makes the program a worker.
pub(crate) const WORKER: &str = "worker";

/// One delivery in so many fails at first.
const BALKS_ONE_IN: u32 = 50;

#[derive(EventType)]
struct ParcelSent;

#[derive(AggregateType)]
struct Street;

/// The event of a parcel; its group is its street.
pub(crate) fn event(group: u32, number: u32, writer: &str) -> EventBuilder {
    Event::text(ParcelSent, format!("[{group},{number}]")).aggregate(Street, group).tenant(writer)
}

/// Whether groups keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Ordered,
    Unordered,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Unordered => "unordered",
        }
    }
}

/// What a worker is told.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) store: String,
    pub(crate) url: String,
    /// The name of this incarnation.
    pub(crate) label: String,
    pub(crate) mode: Mode,
    pub(crate) lease: Duration,
    pub(crate) seed: u64,
    /// How many tasks write all the time.
    pub(crate) writers: u64,
}

impl Plan {
    pub(crate) fn words(&self) -> Vec<String> {
        vec![
            WORKER.to_owned(),
            self.store.clone(),
            self.url.clone(),
            self.label.clone(),
            self.mode.name().to_owned(),
            self.lease.as_millis().to_string(),
            self.seed.to_string(),
            self.writers.to_string(),
        ]
    }

    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let [store, url, label, mode, lease_ms, seed, writers] = words else { return None };
        let mode = [Mode::Ordered, Mode::Unordered].into_iter().find(|known| known.name() == mode)?;
        Some(Self {
            store: store.clone(),
            url: url.clone(),
            label: label.clone(),
            mode,
            lease: Duration::from_millis(u64::from_str(lease_ms).ok()?),
            seed: u64::from_str(seed).ok()?,
            writers: u64::from_str(writers).ok()?,
        })
    }

    /// The outbox of a worker: its listener writes every delivery to the journal.
    pub(crate) fn outbox<S: Store>(&self, store: S) -> OutboxBuilder<S> {
        let label = self.label.clone();
        let rng = Mutex::new(fastrand::Rng::with_seed(self.seed));
        let builder = match self.mode {
            Mode::Ordered => Outbox::ordered(store),
            Mode::Unordered => Outbox::multi_node(store),
        };
        builder
            .listener_for(Street, ParcelSent, move |event: Event| {
                let balks = rng.lock().is_ok_and(|mut rng| rng.u32(..BALKS_ONE_IN) == 0);
                let taken = take(&label, &event, balks);
                async move { taken }
            })
            .lease(self.lease)
            .label(self.label.clone())
            .max_attempts(100)
            .retry(Exponential { base: Duration::from_millis(5), max: Duration::from_millis(50) })
            .no_purge()
    }
}

fn take(label: &str, event: &Event, balks: bool) -> Result<(), Failure> {
    let id = event.id().to_string();
    if balks {
        journal::write(label, &What::Balked { id });
        return Err(Failure::retry("not now"));
    }
    let (group, number) = event.json_as()?;
    journal::write(label, &What::Delivered { group, number, id });
    Ok(())
}
