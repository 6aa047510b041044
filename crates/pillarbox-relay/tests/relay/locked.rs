//! Rows that somebody else's transaction has locked.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{NewRow, Placement, When};
use pillarbox::port::{AnyTable, Write};
use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{AssertSqlSafe, Connection, Executor};

use crate::kit::{Fixture, Recorder, write};

async fn write_due(store: &AnyTable, id: &str, ahead: Duration) {
    let event = Event::text("t", format!("\"{id}\"")).id(id).due(When::In(ahead)).build().unwrap();
    store.write(Write { rows: vec![NewRow { event, placement: Placement::Slot }], now: None }).await.unwrap();
}

/// PBX-050: a cancel that is not committed yet, of a row that falls due meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_row_that_a_transaction_has_locked_delays_only_itself() {
    let Some(fixture) = Fixture::postgres() else { return };
    let (store, recorder) = (fixture.native().await, Recorder::new());
    write_due(&store, "locked", Duration::from_millis(1_500)).await;
    write_due(&store, "later", Duration::from_millis(2_000)).await;
    let mut holder = PgConnection::connect(&fixture.url).await.unwrap();
    let table = format!("{}.outbox_event", fixture.schema.as_deref().unwrap());
    let lock = format!("BEGIN; SELECT 1 FROM {table} WHERE event_id = 'locked' FOR UPDATE");
    holder.execute(AssertSqlSafe(lock)).await.unwrap();
    let mut relay = fixture.relay(&recorder, &[]).await;
    let has = |payload: &'static str| {
        recorder.until(move |seen| seen.iter().any(|batch| batch.payloads.iter().any(|one| one == payload)))
    };
    has("\"later\"").await;
    for payload in ["1", "2", "3"] {
        write(&store, Some("g"), &[payload.to_owned()]).await;
        has(payload).await;
    }
    assert_eq!(recorder.events(), 4, "the locked one waits");
    holder.execute("ROLLBACK").await.unwrap();
    has("\"locked\"").await;
    relay.until_empty().await;
    relay.close().await;
}
