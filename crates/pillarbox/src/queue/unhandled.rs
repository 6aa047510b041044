//! The warning about messages that are due and that a worker has no handler for.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::port::{DueTopics, Store};

/// How often a database is asked.
const EVERY: Duration = Duration::from_secs(5);
/// How often a topic is told of.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Most topics of one database that are told of.
const TOPICS: usize = 100;

/// What is known of one database.
#[derive(Default)]
struct Known {
    asked: Option<Instant>,
    told: BTreeMap<String, Instant>,
}

/// Looks for such messages. They are left where they are: another worker may have the handler, or a newer release.
pub(super) struct Unhandled {
    /// The topics that are handled; none: all are.
    handled: Arc<[String]>,
    databases: Mutex<HashMap<String, Known>>,
}

impl Unhandled {
    pub(super) fn new(handled: Arc<[String]>) -> Self {
        Self { handled, databases: Mutex::default() }
    }

    /// Warns of every topic without a handler, now and then.
    pub(super) async fn check(&self, store: &dyn Store, name: &str) {
        if self.handled.is_empty() || !self.is_time(name) {
            return;
        }
        let request = DueTopics { except: Arc::clone(&self.handled), limit: TOPICS, now: None };
        match store.due_topics(request).await {
            Ok(topics) => self.news(name, topics).iter().for_each(|topic| {
                tracing::warn!(store = name, topic, "no handler for this topic: its messages wait for one");
            }),
            Err(error) => tracing::debug!(store = name, %error, "topics without a handler are not known"),
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

    /// Those that were not told of lately.
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
