//! The one configuration: every key, its default, and that it is applied.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::events::{OutboxConfig, StartError};
use pillarbox::model::Status;
use pillarbox::port::{Admin, OnDone};
use pillarbox::{Outbox, Writer};

use crate::kit::{Seen, Watched, event, seen::commit};

fn read(json: &str) -> OutboxConfig {
    serde_json::from_str(json).unwrap()
}

/// EVT-165
#[test]
fn an_empty_file_is_the_default_and_every_key_reads_back() {
    assert_eq!(read("{}"), OutboxConfig::default());
    let json = serde_json::to_string(&OutboxConfig::default()).unwrap();
    assert_eq!(read(&json), OutboxConfig::default());
    let keys = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&json).unwrap();
    for key in [
        "workers",
        "hot-queue-capacity",
        "cold-queue-capacity",
        "max-attempts",
        "retry-base-delay-ms",
        "retry-max-delay-ms",
        "drain-timeout-ms",
        "poller-enabled",
        "poller-interval-ms",
        "poller-batch-size",
        "poller-skip-recent-ms",
        "lease-ms",
        "purge-enabled",
        "purge-keep-done-seconds",
        "purge-keep-any-seconds",
        "purge-batch-size",
        "purge-interval-seconds",
        "metrics-prefix",
    ] {
        assert!(keys.contains_key(key), "{key}");
    }
}

/// EVT-165
#[test]
fn an_unknown_key_is_refused() {
    let error = serde_json::from_str::<OutboxConfig>("{\"worker\": 1}").unwrap_err().to_string();
    assert!(error.contains("unknown field `worker`"), "{error}");
    assert!(serde_json::from_str::<OutboxConfig>("{\"lease-ms\": -1}").is_err());
    assert!(serde_json::from_str::<OutboxConfig>("{\"on-done\": \"burn\"}").is_err());
}

/// EVT-161, EVT-165
#[tokio::test]
async fn every_wrong_key_is_reported_at_once() {
    let config = read(
        r#"{"workers": 0, "hot-queue-capacity": 0, "cold-queue-capacity": 0, "buffer-bytes": 0, "max-attempts": 0,
        "retry-base-delay-ms": 2, "retry-max-delay-ms": 1, "listener-deadline-ms": 0, "poller-interval-ms": 0,
        "poller-batch-size": 0, "drain-timeout-ms": 86400001, "poller-skip-recent-ms": 86400001, "lease-ms": 0,
        "payload-limit-bytes": 0, "purge-batch-size": 0, "purge-interval-seconds": 0, "metrics-prefix": "",
        "purge-keep-any-seconds": 1}"#,
    );
    let builder = config.apply(Outbox::single_node(Watched::new()).listener("t", Seen::new().listener()));
    let Err(StartError::Settings(problems)) = builder.start().await else { panic!("it started") };
    let fields = [
        "workers",
        "hot rows",
        "cold rows",
        "buffer bytes",
        "max attempts",
        "retry-base-delay-ms",
        "deadline",
        "poll interval",
        "fetch rows",
        "drain",
        "skip recent",
        "lease",
        "payload-limit-bytes",
        "purge batch",
        "purge interval",
        "metrics-prefix",
        "purge keep_any",
    ];
    let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for field in fields {
        assert!(text.contains(field), "{field}: {text}");
    }
    assert_eq!(text.matches("lease").count(), 1, "{text}");
}

/// EVT-165
#[tokio::test(start_paused = true)]
async fn limits_attempts_delays_lease_label_and_what_becomes_of_done_rows_are_applied() {
    let config = read(
        r#"{"max-attempts": 2, "retry-base-delay-ms": 60000, "retry-max-delay-ms": 60000, "lease-ms": 3000,
        "label": "here", "on-done": "delete", "payload-limit-bytes": 5, "listener-deadline-ms": 1000}"#,
    );
    assert_eq!(config.on_done, OnDone::Delete);
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = config
        .apply(Outbox::multi_node(store.clone()))
        .listener("t", seen.listener())
        .listener("bad", seen.failing())
        .start()
        .await
        .unwrap();
    let node = store.inner.nodes().await.unwrap().remove(0);
    assert_eq!((node.label.as_str(), node.expires_in), ("here", Some(Duration::from_secs(3))));
    assert!(outbox.begin().await.unwrap().write(event("x").payload_json("[1,2,3]")).is_err());
    commit(&outbox, event("a")).await;
    store
        .until_that(async || (store.count("settle") > 0 && store.status("a").await.is_none()).then_some(()))
        .await;
    let begun = tokio::time::Instant::now();
    commit(&outbox, pillarbox::Event::text("bad", "{}").id("b")).await;
    assert_eq!(store.until("b", Status::Dead).await.attempts, 2);
    let waited = begun.elapsed().as_secs();
    assert!((30..=90).contains(&waited), "{waited}");
    outbox.close().await;
}

/// EVT-165
#[tokio::test(start_paused = true)]
async fn with_the_poller_off_nothing_of_others_is_read() {
    let (store, seen) = (Watched::new(), Seen::new());
    let writer = Writer::new(Arc::new(store.clone()));
    let mut tx = writer.begin().await.unwrap();
    tx.write(event("elsewhere")).unwrap();
    tx.commit().await.unwrap();
    let config = read("{\"poller-enabled\": false, \"purge-enabled\": false}");
    let outbox = config
        .apply(Outbox::single_node(store.clone()))
        .listener("t", seen.listener())
        .start()
        .await
        .unwrap();
    commit(&outbox, event("here")).await;
    store.until("here", Status::Done).await;
    tokio::time::advance(Duration::from_secs(7_200)).await;
    outbox.close().await;
    assert_eq!((store.count("purge"), seen.ids()), (0, vec!["here".to_owned()]));
}

/// EVT-080, EVT-165
#[tokio::test(start_paused = true)]
async fn recent_rows_are_left_to_later_reads() {
    let (store, seen) = (Watched::new(), Seen::new());
    let config = read("{\"poller-skip-recent-ms\": 20000, \"poller-interval-ms\": 1000}");
    let outbox =
        config.apply(Outbox::ordered(store.clone())).listener("t", seen.listener()).start().await.unwrap();
    let begun = tokio::time::Instant::now();
    commit(&outbox, event("a")).await;
    store.until("a", Status::Done).await;
    assert!((20..30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    outbox.close().await;
}
