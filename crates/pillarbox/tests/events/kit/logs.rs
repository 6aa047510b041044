//! Captures what is logged on this thread.
//!
//! One subscriber serves the whole process. With a subscriber for each thread, a thread that has none can be the first to reach a log
//! statement, and `tracing` then remembers that nobody wants it.

use std::cell::RefCell;
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Option<Vec<(Level, String)>>> = const { RefCell::new(None) };
}

/// Everything logged on this thread while it lives.
pub(crate) struct Logs {
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Logs {
    pub(crate) fn capture() -> Self {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| tracing::subscriber::set_global_default(Capture).unwrap());
        // A statement that another thread reached while the subscriber was being set may be remembered as unwanted.
        tracing::callsite::rebuild_interest_cache();
        LINES.set(Some(Vec::new()));
        Self { _thread: PhantomData }
    }

    pub(crate) fn all(&self) -> Vec<(Level, String)> {
        LINES.with_borrow(|lines| lines.clone().unwrap_or_default())
    }

    /// Whether a line of this level holds this text.
    pub(crate) fn has(&self, level: Level, text: &str) -> bool {
        self.all().iter().any(|(at, line)| *at == level && line.contains(text))
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

struct Capture;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Capture {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push((*event.metadata().level(), line.0));
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
