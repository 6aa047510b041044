//! An endpoint that refuses everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pillarbox::port::Verdict;

use crate::kit::{Fixture, Recorder, numbered, statuses, write};

/// RLY-044: twenty refusals are enough to know; with one attempt each, nineteen events have died by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_refuses_everything_does_not_empty_the_outbox_into_dead_letters() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    for group in 0..40 {
        write(&store, Some(&format!("g{group}")), &numbered("g", 1)).await;
    }
    // Five more than make the brake hold open the circuit breaker; the next is a probe, and refused too.
    let sent = AtomicUsize::new(0);
    let recorder = Recorder::judging(move |_| match sent.fetch_add(1, Ordering::Relaxed) {
        0..25 => Verdict::Failed { error: "expected an object".to_owned(), after: None },
        _ => Verdict::Accepted,
    });
    let mut relay = fixture.relay(&recorder, &[("max-retries", "0"), ("max-concurrent-groups", "1")]).await;
    relay.until_empty().await;
    relay.close().await;
    assert_eq!(statuses(&store).await, [0, 21, 0, 19]);
}

/// RLY-044, PBX-010
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_back_keeps_its_order_and_its_attempts() {
    let fixture = Fixture::sqlite();
    let store = fixture.native().await;
    write(&store, Some("g"), &numbered("g", 30)).await;
    let mended = Arc::new(AtomicBool::new(false));
    let accepts = Arc::clone(&mended);
    let recorder = Recorder::judging(move |_| match accepts.load(Ordering::Relaxed) {
        true => Verdict::Accepted,
        false => Verdict::Rejected { error: "never".to_owned() },
    });
    let mut relay = fixture.relay(&recorder, &[("on-dead", "skip")]).await;
    // The first of each batch is refused; the twentieth is sent again, alone.
    recorder.until(|seen| seen.len() >= 22).await;
    let batches = recorder.batches();
    let probes: Vec<_> = batches[20..22].iter().map(|batch| batch.payloads.clone()).collect();
    let twentieth = vec![numbered("g", 30)[19].clone()];
    assert_eq!(probes, [twentieth.clone(), twentieth]);
    mended.store(true, Ordering::Relaxed);
    relay.until_empty().await;
    relay.close().await;
    assert_eq!(statuses(&store).await, [0, 11, 0, 19]);
    let sent = recorder.of_group("g");
    assert_eq!(sent[sent.len() - 10..], numbered("g", 30)[20..]);
}
