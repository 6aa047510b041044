//! Message ids that are there already, on transactions of the user's own.

use pillarbox::model::{Event, NewRow, Placement};
use pillarbox::port::{ErrorKind, WriteOn};
use pillarbox_mysql::sqlx::{Row, query};

use crate::kit::Fixture;

fn row(id: &str, message: Option<&str>) -> NewRow {
    let event = Event::text("OrderPlaced", "{}").id(id);
    let event = match message {
        Some(message) => event.message_id(message),
        None => event,
    };
    NewRow { event: event.build().unwrap(), placement: Placement::Slot }
}

/// EVT-042: a second message does not end the user's transaction, whatever its snapshot has seen, and a second event only fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_message_or_event_leaves_the_transaction_usable() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        query("CREATE TABLE orders (id int PRIMARY KEY)").execute(&fixture.pool).await.unwrap();
        let mut tx = fixture.pool.begin().await.unwrap();
        // The snapshot is taken before the message is written.
        query("SELECT count(*) FROM outbox_event").fetch_one(&mut *tx).await.unwrap();
        query("INSERT INTO orders VALUES (1)").execute(&mut *tx).await.unwrap();
        let mut other = fixture.pool.begin().await.unwrap();
        store.insert(&mut other, &[row("first", Some("m"))]).await.unwrap();
        other.commit().await.unwrap();
        let written = store
            .insert(&mut tx, &[row("a", None), row("second", Some("m")), row("b", Some("n"))])
            .await
            .unwrap();
        let ids: Vec<(&str, bool)> = written.iter().map(|one| (one.id.as_str(), one.fresh)).collect();
        assert_eq!(ids, [("a", true), ("first", false), ("b", true)]);
        let refused = store.insert(&mut tx, &[row("c", None), row("first", None)]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        tx.commit().await.unwrap();
        let mut found = fixture.connection().await;
        let rows =
            query("SELECT event_id FROM outbox_event ORDER BY event_id").fetch_all(&mut found).await.unwrap();
        let ids: Vec<Vec<u8>> = rows.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect();
        assert_eq!(
            ids,
            [b"a".to_vec(), b"b".to_vec(), b"first".to_vec()],
            "nothing of the call that failed is there"
        );
        assert_eq!(fixture.number("SELECT count(*) FROM orders").await, 1);
    }
}
