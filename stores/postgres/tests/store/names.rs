//! Names of one's own: schemas and tables that need quotes, and several outboxes in one database.

use pillarbox::Outbox;
use pillarbox::model::TableName;
use pillarbox::port::Admin;

use crate::kit::{Fixture, Seen, commit};

/// EVT-048: tables named like keywords and in mixed case, in one schema and in another: no outbox sees another's events.
#[tokio::test(flavor = "multi_thread")]
async fn outboxes_in_one_database_do_not_see_each_other() {
    let Some(fixture) = Fixture::new().await else { return };
    let mixed = format!("Mixed_{}", &fixture.schema[2..]);
    fixture.execute(&format!("CREATE SCHEMA \"{mixed}\"")).await;
    let plain = fixture.schema.clone();
    let tables =
        [(&plain, "order"), (&plain, "User"), (&plain, "user"), (&mixed, "order"), (&mixed, "Select_event")];
    let mut running = Vec::new();
    for (number, (schema, table)) in tables.into_iter().enumerate() {
        let name = |text: &str| TableName::new(text).unwrap();
        let store = fixture.builder().schema(name(schema)).table(name(table)).open();
        store.migrate().await.unwrap();
        let seen = Seen::new();
        let outbox = seen.hear(Outbox::ordered(store.clone())).start().await.unwrap();
        running.push((number, seen, outbox, store));
    }
    for (name, _, outbox, _) in &running {
        for number in 1..=3 {
            commit(outbox, &format!("{name}-{number}"), "1").await;
        }
    }
    for (name, seen, outbox, store) in &running {
        seen.wait(3).await;
        assert_eq!(store.nodes().await.unwrap().len(), 1, "{name}");
        assert_eq!(store.stats().await.unwrap().free_slots, 0, "{name}");
        outbox.close().await;
        assert_eq!(seen.ids(), [1, 2, 3].map(|number| format!("{name}-{number}")));
        assert_eq!(store.stats().await.unwrap().by_status(), [0, 3, 0, 0], "{name}");
    }
    assert_eq!(
        fixture
            .number(
                "SELECT count(*) FROM pg_class WHERE relname = 'outbox_event' AND relnamespace = \
                             current_setting('search_path')::regnamespace"
            )
            .await,
        0
    );
}
