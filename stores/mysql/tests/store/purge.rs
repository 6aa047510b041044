//! Purge in turns.

use std::time::Duration;

use pillarbox::port::{Admin, Purge, PurgeStatus};

use crate::kit::{Fixture, run};

const OLD: &str = "INSERT INTO outbox_event (event_id, event_type, payload, status, done_at) \
    VALUES ('a', 'x', '{}', 1, '2001-01-01')";
const ATTEMPT: &str = "INSERT INTO outbox_attempt (event_id, number, failed_at, failed_by, error) \
    VALUES ('a', 1, '2001-01-01', 'x', 'no')";

fn purge() -> Purge {
    Purge { status: PurgeStatus::Done, older_than: Duration::from_secs(86_400), limit: 100, now: None }
}

/// PBX-105: a purge that is one of many processes' leaves off while another is at it.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_purges_in_its_turn() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let mut holder = fixture.connection().await;
        for statement in [OLD, ATTEMPT, "BEGIN", "SELECT id FROM outbox_attempt FOR UPDATE"] {
            run(&mut holder, statement).await;
        }
        let first = store.purge_in_turn(purge());
        let second = async {
            fixture.until_locked(1).await;
            assert_eq!(fixture.beside().purge_in_turn(purge()).await.unwrap(), 0, "it does not wait either");
            run(&mut holder, "COMMIT").await;
        };
        let (purged, ()) = tokio::join!(first, second);
        assert_eq!(purged.unwrap(), 1);
        run(&mut holder, OLD).await;
        assert_eq!(fixture.beside().purge_in_turn(purge()).await.unwrap(), 1, "the turn is over");
    }
}
