//! Payloads and header values never reach a log or an error message.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::events::{Failure, OutboxConfig, Polled};
use pillarbox::model::{Invalid, NewRow, Payload, Placement, Seq, Status, Token};
use pillarbox::port::{Delivery, Select, Table, Write};
use pillarbox::{Event, Outbox, Writer};

use crate::kit::{Logs, Seen, Watched, seen::commit};

const CANARY: &str = "c4nary";

fn secret(id: &str) -> pillarbox::model::EventBuilder {
    Event::text("t", format!("{{\"card\":\"{CANARY}\"}}")).id(id).header("authorization", CANARY)
}

fn hidden(text: String) {
    assert!(!text.to_lowercase().contains(CANARY), "{text}");
    let digits = CANARY.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    assert!(!text.contains(&digits), "{text}");
}

/// PBX-023
#[tokio::test]
async fn no_debug_output_of_a_public_type_shows_them() {
    let event = secret("a").build().unwrap();
    let raw = Event::bytes("t", CANARY).header("authorization", CANARY);
    hidden(format!("{:?} {raw:?} {:?} {:?}", secret("a"), event, event.payload()));
    hidden(format!("{:?} {:?}", event.headers(), Payload::Bytes(CANARY.as_bytes().into())));
    hidden(format!("{:?}", NewRow { event: event.clone(), placement: Placement::Slot }));
    hidden(format!(
        "{:?}",
        Polled { event: event.clone(), attempts: 0, seq: Seq(1), token: Token(0), lapsed: false }
    ));
    hidden(format!("{:?}", Delivery::first(event.clone())));
    let store = Watched::new();
    let rows = vec![NewRow { event, placement: Placement::Slot }];
    let write = Write { rows, now: None };
    hidden(format!("{write:?}"));
    store.write(write).await.unwrap();
    let record = store.record("a").await.unwrap();
    hidden(format!("{record:?} {:?} {:?}", store.inner, Select::default()));
    hidden(format!("{:?}", store.inner.clone()));
    hidden(format!("{:?}", OutboxConfig::default()));
}

/// PBX-023
#[tokio::test]
async fn no_error_about_an_event_shows_them() {
    let both = secret("a").payload_bytes(CANARY).build().unwrap_err();
    let nul = secret("a").header("k", format!("{CANARY}\0")).build().unwrap_err();
    let json = secret("a").payload_json(format!("{CANARY}\0")).build().unwrap_err();
    let unread = secret("a").build().unwrap().json_as::<Vec<u64>>().unwrap_err();
    let text = Event::text("t", format!("\"{CANARY}\"")).build().unwrap().json_as::<u64>().unwrap_err();
    for error in [both, nul, json, unread, text] {
        hidden(format!("{error} {error:?}"));
    }
    let writer = Writer::new(Arc::new(Watched::new())).payload_limit(3);
    let large = writer.begin().await.unwrap().write(secret("a")).unwrap_err();
    hidden(format!("{large} {large:?}"));
    let store = Watched::new();
    let writer = Writer::new(Arc::new(store.clone()));
    for _ in 0..2 {
        let mut tx = writer.begin().await.unwrap();
        tx.write(secret("same")).unwrap();
        if let Err(error) = tx.commit().await {
            hidden(format!("{error} {error:?}"));
        }
    }
    let named = Invalid::Empty { field: "event type" };
    assert_eq!(named.to_string(), "event type is empty");
}

/// PBX-023
#[tokio::test(start_paused = true)]
async fn a_run_in_which_everything_fails_logs_none_of_them() {
    let logs = Logs::capture();
    let (store, seen) = (Watched::new(), Seen::new());
    let outbox = Outbox::single_node(store.clone())
        .listener("t", |event: Event| async move { Ok(event.json_as::<Vec<u64>>().map(|_| ())?) })
        .listener("panics", |_: Event| async { panic!("no") as Result<(), Failure> })
        .listener("slow", |_: Event| std::future::pending::<Result<(), Failure>>())
        .interceptor(pillarbox::events::interceptor::before(|event| {
            event.json_as::<serde_json::Value>().map(|_| ()).map_err(Failure::permanent)
        }))
        .deadline(Duration::from_secs(1))
        .hot_capacity(1)
        .max_attempts(2)
        .start()
        .await
        .unwrap();
    store.fail("settle");
    commit(&outbox, secret("a")).await;
    for kind in ["panics", "slow", "nobody"] {
        let payload = format!("\"{CANARY}\"");
        commit(&outbox, Event::text(kind, payload).id(kind).header("k", CANARY)).await;
    }
    commit(&outbox, Event::bytes("t", CANARY).id("raw")).await;
    store.until_that(async || (store.count("settle") > 3).then_some(())).await;
    store.heal();
    for id in ["a", "panics", "slow", "nobody", "raw"] {
        let record = store.until(id, Status::Dead).await;
        hidden(record.last_error.unwrap());
    }
    outbox.close().await;
    assert_eq!(seen.count(), 0);
    assert!(logs.all().len() > 5);
    logs.all().into_iter().for_each(|(_, line)| hidden(line));
}
