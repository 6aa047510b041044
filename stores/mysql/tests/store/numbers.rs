//! Numbers: each is given once, also after the row that had it has gone.

use std::time::Duration;

use pillarbox::port::{
    Admin, Begin, Change, OnDone, Purge, PurgeStatus, Replay, Select, Store, Write, WriteOn,
};

use crate::kit::{Place, event, join, run, seq, settle};

/// PBX-010: a number is never given twice, not by an insert after a delete and not by a replay.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_never_given_twice() {
    for place in Place::all().await {
        let store = place.store().await;
        store.join(join(1, Duration::from_secs(600))).await.unwrap();
        let mut last = 0;
        for round in 0..3 {
            let id = format!("e{round}");
            let written = store.write(Write { rows: vec![event(&id, "1")], now: None }).await.unwrap();
            assert_eq!(written[0].seq, seq(&place, &id).await, "what is told is what is there");
            assert!(written[0].seq.0 > last);
            let dead =
                Change::Dead { error: "no".to_owned(), counts: pillarbox::port::Counts::One, blocks: None };
            store.settle(settle(1, &written, OnDone::Keep, &dead)).await.unwrap();
            let replay = Replay { select: Select::default(), limit: 10, by: "ann".to_owned(), now: None };
            assert_eq!(store.replay(replay).await.unwrap(), 1);
            let replayed = seq(&place, &id).await;
            assert!(replayed > written[0].seq, "a replay goes to the end");
            last = replayed.0;
            let purge = Purge { status: PurgeStatus::Any, older_than: Duration::ZERO, limit: 10, now: None };
            assert_eq!(store.purge(purge).await.unwrap(), 1);
            assert_eq!(
                place.number("SELECT count(*) FROM outbox_event").await,
                0,
                "nothing that held a place stays"
            );
        }
    }
}

/// PBX-010, PBX-024: how far apart numbers are is a setting of the session that inserts, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_told_as_the_writers_own_session_spaced_them() {
    for place in Place::all().await {
        let store = place.store().await;
        for (round, step) in [1, 7, 2].into_iter().enumerate() {
            let mut tx = store.begin().await.unwrap();
            run(&mut tx, &format!("SET SESSION auto_increment_increment = {step}")).await;
            let rows: Vec<_> = (0..4).map(|n| event(&format!("e{round}-{n}"), "1")).collect();
            let written = store.insert(&mut tx, &rows).await.unwrap();
            run(&mut tx, "SET SESSION auto_increment_increment = DEFAULT").await;
            store.commit(tx).await.unwrap();
            for one in &written {
                assert_eq!(one.seq, seq(&place, one.id.as_str()).await, "step {step}, {}", one.id);
            }
            assert_eq!(written[3].seq.0 - written[2].seq.0, step);
        }
    }
}
