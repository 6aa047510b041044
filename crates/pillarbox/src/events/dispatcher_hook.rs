//! The writer hook that feeds a dispatcher: the hot path of a set-up without an outbox.

use std::sync::Arc;

use super::poller::Polled;
use super::{Dispatcher, Failure, WriterHook};
use crate::model::{Event, Token, Written};

/// Passes committed events to the hot queue of a dispatcher.
///
/// For a writer, a dispatcher and a poller that are set up by hand. Events that do not fit into the hot queue,
/// are delayed or can expire are left to the poller; those that do not fit are counted as `hot_dropped` and
/// logged. The dispatcher must not settle under claims ([`claimed_by`](super::DispatcherBuilder::claimed_by)),
/// because committed rows are not claimed.
#[derive(Clone)]
pub struct DispatcherWriterHook {
    dispatcher: Arc<Dispatcher>,
}

impl DispatcherWriterHook {
    /// Creates the hook of this dispatcher.
    #[must_use]
    pub fn new(dispatcher: Arc<Dispatcher>) -> Self {
        Self { dispatcher }
    }
}

impl WriterHook for DispatcherWriterHook {
    fn after_commit_rows(&self, events: &[Event], rows: &[Written]) -> Result<(), Failure> {
        for (event, row) in events.iter().zip(rows) {
            // Expiry is decided by the database's clock, which only a read returns.
            if row.fresh && !row.delayed && event.expires().is_none() {
                let polled = Polled {
                    event: event.clone(),
                    attempts: 0,
                    seq: row.seq,
                    token: Token::default(),
                    lapsed: false,
                };
                self.dispatcher.enqueue_hot(polled);
            }
        }
        Ok(())
    }
}
