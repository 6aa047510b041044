//! The statement for any driver, run with text parameters only.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Writer;
use pillarbox::model::Event;
use pillarbox::port::{Admin, List};
use pillarbox_postgres::sqlx::{AssertSqlSafe, query};

use crate::kit::{Kit, URL, could_not_run, event};

/// EVT-007, EVT-009
#[tokio::test]
async fn every_field_comes_back_as_it_was_given() {
    let Some(kit) = Kit::new("every_field_comes_back_as_it_was_given").await else { return };
    let writer = Writer::new(Arc::new(kit.store.clone()));
    let text = "{\"a\":\"\\u00e9 \\\" \u{1F600}\\n\"}";
    let full = Event::text("OrderPlaced", text)
        .id("a")
        .aggregate("Order", "7")
        .header("k", "v'\"\\")
        .message_id("m")
        .occurred_at("-000043-03-15T12:00:00.000001Z".parse().unwrap())
        .expires(Duration::from_secs(60));
    let bytes = Event::bytes("OrderPlaced", vec![0, 1, 255]).id("b");
    let events = [full.build().unwrap(), bytes.build().unwrap()];
    let (insert, receipt) = writer.insert_sql(events.clone()).unwrap();
    let insert = insert.unwrap();
    for added in [2, 0] {
        // The second time both rows are there: the message id adds nothing, the other event would be a conflict.
        let (insert, _) = match added {
            2 => (insert.clone(), ()),
            _ => (writer.insert_sql([events[0].clone()]).unwrap().0.unwrap(), ()),
        };
        let run = query(AssertSqlSafe(insert.sql)).bind(&insert.params[0]).execute(&kit.pool).await.unwrap();
        assert_eq!(run.rows_affected(), added);
    }
    receipt.committed();
    let listed = kit.store.list(List { limit: 10, ..List::default() }).await.unwrap();
    for (record, event) in listed.iter().zip(&events) {
        let read = record.event.as_ref().unwrap();
        assert_eq!(read.payload(), event.payload());
        assert_eq!(read.headers(), event.headers());
        assert_eq!(read.aggregate_id(), event.aggregate_id());
        assert_eq!(read.occurred_at().as_microsecond(), event.occurred_at().as_microsecond());
    }
    assert_eq!(listed.len(), 2);
    assert!(listed[0].expires_at.is_some());
}

/// The statement runs in `psql` as in any driver.
#[tokio::test]
async fn psql_can_run_it() {
    let Some(kit) = Kit::new("psql_can_run_it").await else { return };
    let Ok(programs) = std::env::var("PILLARBOX_TEST_POSTGRES_BIN") else {
        could_not_run("psql_can_run_it", "PILLARBOX_TEST_POSTGRES_BIN is not set");
        return;
    };
    let writer = Writer::new(Arc::new(kit.store.clone()));
    let (insert, receipt) = writer.insert_sql([event("a"), event("b")]).unwrap();
    let insert = insert.unwrap();
    let script = format!(
        "BEGIN;\nPREPARE write (text) AS {};\nEXECUTE write ($json${}$json$);\nCOMMIT;\n",
        insert.sql, insert.params[0]
    );
    let url = std::env::var(URL).unwrap();
    let psql = Command::new(format!("{programs}/psql"))
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", &script, &url])
        .output()
        .unwrap();
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    receipt.committed();
    assert_eq!(kit.counts().await, (2, 0));
}
