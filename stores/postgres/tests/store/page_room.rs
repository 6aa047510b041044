//! The room that pages keep for the versions of rows that claims write.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::model::OwnerId;
use pillarbox::port::{Admin, ByteLimits, Claim, ClaimFrom, Store};

use crate::kit::Fixture;

const FILLED_TO: &str = "SELECT option_value::bigint FROM pg_class, pg_options_to_table(reloptions) \
    WHERE oid = to_regclass('outbox_event') AND option_name = 'fillfactor'";
const MESSAGES: &str = "INSERT INTO outbox_event (event_id, event_type, payload, lane) \
    SELECT 'm' || n, 'topic', repeat('x', 300), -2 FROM generate_series(1, 200) n";
const MOVED: &str = "SELECT count(*) FROM outbox_event JOIN page_before USING (event_id) \
    WHERE (outbox_event.ctid::text::point)[0] <> page";

/// PBX-132: no index has a column that a claim changes, so an update within the page changes no index.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_leaves_a_message_on_its_page() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    fixture.execute(MESSAGES).await;
    fixture
        .execute(
            "CREATE TABLE page_before AS SELECT event_id, (ctid::text::point)[0] AS page FROM outbox_event",
        )
        .await;
    let claim = Claim {
        from: ClaimFrom::Queue,
        topics: Arc::new(["topic".to_owned()]),
        owner: OwnerId::random(),
        lease: Duration::from_secs(30),
        rows: 200,
        bytes: ByteLimits::NONE,
        skip_recent: Duration::ZERO,
        now: None,
    };
    assert_eq!(store.claim(claim).await.unwrap().len(), 200);
    assert_eq!(fixture.number(MOVED).await, 0);
}

/// PBX-132
#[tokio::test(flavor = "multi_thread")]
async fn older_tables_get_room_in_their_pages_and_a_setting_stays() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = fixture.store().await;
    assert_eq!(fixture.number(FILLED_TO).await, 45);
    fixture.execute("ALTER TABLE outbox_event RESET (fillfactor)").await;
    store.migrate().await.unwrap();
    assert_eq!(fixture.number(FILLED_TO).await, 45);
    fixture.execute("ALTER TABLE outbox_event SET (fillfactor = 90)").await;
    store.migrate().await.unwrap();
    assert_eq!(fixture.number(FILLED_TO).await, 90);
}
