//! Events to deliver, and what a consumer gets of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pillarbox::Event;
use pillarbox::model::EventId;
use pillarbox::port::{Delivery, Sink, Verdict};
use pillarbox_sinks::{SinkOptions, open};

pub(crate) const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// Stands for a password, which must be seen nowhere.
pub(crate) const CANARY: &str = "canary-7f3a";

/// What a consumer got.
#[derive(Debug, Clone, Default)]
pub(crate) struct Got {
    pub(crate) body: Vec<u8>,
    pub(crate) headers: BTreeMap<String, String>,
    /// The key or the message's id.
    pub(crate) key: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A name that no other test and no run before used.
pub(crate) fn unique(what: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    format!("{what}-{now:x}-{count}")
}

pub(crate) fn sink(url: &str) -> Arc<dyn Sink> {
    open(url, &SinkOptions::default()).unwrap()
}

pub(crate) fn delivery(event: Event) -> Delivery {
    Delivery::first(event)
}

/// Three events of one group: JSON, bytes that are no text, and JSON with headers and a trace.
pub(crate) fn three(group: &str) -> Vec<Delivery> {
    let json = Event::text("order.placed", "{ \"a\" : 1.50,\n\"ü\":[] }").group(group);
    let bytes = Event::bytes("order.placed", vec![0, 159, 146, 150, 255, 10, 13]).group(group);
    let traced = Event::text("order.placed", "{\"n\":3}").group(group).header("region", "eu west");
    let traced = traced.header("traceparent", TRACEPARENT).correlation_id("c-1").tenant("t-1");
    [json, bytes, traced].into_iter().map(|event| delivery(event.build().unwrap())).collect()
}

/// An event of the type, with a payload of so many bytes: more than can be written, if a row of others has them.
pub(crate) fn sized(event_type: &'static str, group: &str, bytes: usize) -> Delivery {
    let event = Event::bytes(event_type, vec![b'x'; bytes]).group(group);
    delivery(event.build_from_row(EventId::new(unique("e")).unwrap()))
}

/// An event of the type.
pub(crate) fn typed(event_type: &'static str, group: &str) -> Delivery {
    sized(event_type, group, 10)
}

/// What became of each, in a word.
pub(crate) fn words(verdicts: &[Verdict]) -> Vec<&'static str> {
    let word = |verdict: &Verdict| match verdict {
        Verdict::Accepted => "accepted",
        Verdict::Rejected { .. } => "rejected",
        Verdict::Unavailable { .. } => "unavailable",
        Verdict::Skipped => "skipped",
        _ => "other",
    };
    verdicts.iter().map(word).collect()
}

/// The first error among the verdicts.
pub(crate) fn error(verdicts: &[Verdict]) -> String {
    let error = verdicts.iter().find_map(|verdict| match verdict {
        Verdict::Rejected { error } | Verdict::Unavailable { error, .. } | Verdict::Failed { error, .. } => {
            Some(error.clone())
        }
        _ => None,
    });
    error.unwrap_or_default()
}
