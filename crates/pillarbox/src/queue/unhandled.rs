//! Warnings about due messages of topics for which a worker has no handler.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::port::{DueTopics, Store};

/// Minimum time between two queries of one database.
const EVERY: Duration = Duration::from_secs(5);
/// Minimum time between two warnings about one topic.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of topics per query.
const TOPICS: usize = 100;

/// Times of the last query of one database and of its last warnings.
#[derive(Default)]
struct LastChecked {
    asked: Option<Instant>,
    told: BTreeMap<String, Instant>,
}

/// Finds topics without a handler. Their messages stay pending: another worker or a newer
/// release may have the handler.
pub(super) struct Unhandled {
    /// Topics with a handler; empty if all topics are handled.
    handled: Arc<[String]>,
    databases: Mutex<HashMap<String, LastChecked>>,
}

impl Unhandled {
    pub(super) fn new(handled: Arc<[String]>) -> Self {
        Self { handled, databases: Mutex::default() }
    }

    /// Logs a warning for each due topic without a handler, at limited rates.
    pub(super) async fn check(&self, store: &dyn Store, name: &str) {
        if self.handled.is_empty() || !self.is_time(name) {
            return;
        }
        let request = DueTopics { except: Arc::clone(&self.handled), limit: TOPICS, now: None };
        match store.due_topics(request).await {
            Ok(topics) => self.news(name, topics).iter().for_each(|topic| {
                tracing::warn!(store = name, topic, "no handler for this topic: its messages wait for one");
            }),
            Err(error) => tracing::debug!(store = name, %error, "could not query topics without a handler"),
        }
    }

    fn is_time(&self, name: &str) -> bool {
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = databases.entry(name.to_owned()).or_default();
        let now = Instant::now();
        let due = known.asked.is_none_or(|asked| now - asked >= EVERY);
        if due {
            known.asked = Some(now);
        }
        due
    }

    /// Returns the topics without a recent warning, and marks them as warned.
    fn news(&self, name: &str, topics: Vec<String>) -> Vec<String> {
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let known = databases.entry(name.to_owned()).or_default();
        let now = Instant::now();
        known.told.retain(|_, told| now - *told < TOLD_EVERY);
        let news: Vec<String> = topics.into_iter().filter(|topic| !known.told.contains_key(topic)).collect();
        known.told.extend(news.iter().map(|topic| (topic.clone(), now)));
        news
    }
}
