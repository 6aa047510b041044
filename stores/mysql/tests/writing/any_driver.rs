//! The statement for any driver, run with text parameters only.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Writer;
use pillarbox::model::Event;
use pillarbox::port::{Admin, Insert, List};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Error, query, raw_sql};

use crate::kit::Fixture;

async fn run(fixture: &Fixture, insert: &Insert) -> Result<u64, Error> {
    let statement = query(AssertSqlSafe(insert.sql.as_str()));
    let statement = insert.params.iter().fold(statement, |statement, param| statement.bind(param));
    Ok(statement.execute(&fixture.pool).await?.rows_affected())
}

/// EVT-007, EVT-009
#[tokio::test]
async fn every_field_comes_back_as_it_was_given() {
    for fixture in Fixture::all().await {
        let store = fixture.store().await;
        let writer = Writer::new(Arc::new(store.clone()));
        let full = Event::text("OrderPlaced", "{\"a\":\"\\u00e9 \\\" \u{1F600}\\n\"}")
            .id("a")
            .aggregate("Order", "7")
            .tenant("t")
            .header("k", "v'\"\\")
            .message_id("m")
            .correlation_id("c")
            .occurred_at("1999-03-15T12:00:00.000001Z".parse().unwrap())
            .expires(Duration::from_secs(60));
        let bytes = Event::bytes("OrderPlaced", vec![0, 1, 255]).id("b").due(Duration::from_secs(3_600));
        let events = [full.build().unwrap(), bytes.build().unwrap()];
        let (insert, receipt) = writer.insert_sql(events.clone()).unwrap();
        assert_eq!(run(&fixture, &insert.unwrap()).await.unwrap(), 2);
        receipt.committed();
        let listed = store.list(List { limit: 10, ..List::default() }).await.unwrap();
        assert_eq!(listed.len(), 2);
        for (record, event) in listed.iter().zip(&events) {
            let read = record.event.as_ref().unwrap();
            assert_eq!(read.payload(), event.payload());
            assert_eq!(read.headers(), event.headers());
            assert_eq!((read.aggregate_id(), read.tenant_id()), (event.aggregate_id(), event.tenant_id()));
            assert_eq!(
                (read.message_id(), read.correlation_id()),
                (event.message_id(), event.correlation_id())
            );
            assert_eq!(read.occurred_at().as_microsecond(), event.occurred_at().as_microsecond());
        }
        assert!(listed[0].expires_at.is_some());
        assert_eq!(listed[1].slot.0, -1, "it waits for its time");
    }
}

/// EVT-042: a message id that is there adds nothing; an event id that is there is an error, under any setting.
#[tokio::test]
async fn a_second_message_adds_nothing_and_a_second_event_is_refused() {
    for fixture in Fixture::all().await {
        let writer = Writer::new(Arc::new(fixture.store().await));
        let insert = |id: &str, message: &str| {
            let event = Event::text("OrderPlaced", "{}").id(id).message_id(message).build().unwrap();
            writer.insert_sql([event]).unwrap().0.unwrap()
        };
        run(&fixture, &insert("a", "m")).await.unwrap();
        run(&fixture, &insert("b", "m")).await.unwrap();
        for mode in ["", "STRICT_ALL_TABLES"] {
            let mut connection = fixture.connection().await;
            let text = format!("SET SESSION sql_mode = '{mode}'");
            raw_sql(AssertSqlSafe(text)).execute(&mut connection).await.unwrap();
            let again = insert("a", "n");
            let statement = query(AssertSqlSafe(again.sql.as_str()));
            let statement = again.params.iter().fold(statement, |statement, param| statement.bind(param));
            assert!(statement.execute(&mut connection).await.is_err(), "{mode}");
        }
        assert_eq!(
            fixture
                .number("SELECT count(*) FROM outbox_event WHERE event_id = 'a' AND message_id = 'm'")
                .await,
            1
        );
        assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, 1);
    }
}
