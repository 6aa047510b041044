//! Numbers that are drawn early and committed late: none is passed over, and groups keep their order.

use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::port::{Cursor, Table, Write};
use pillarbox_conformance::{account_insert, account_row};
use pillarbox_postgres::sqlx::postgres::PgConnection;

use crate::kit::{Fixture, MAIN, NEWEST, Seen, fetch_from, run};

/// Plain writers send no hints.
const POLL: Duration = Duration::from_millis(20);

fn ids(fetched: &pillarbox::port::Fetched) -> Vec<String> {
    let id = |row: &pillarbox::model::Row| row.event.as_ref().unwrap().id().to_string();
    fetched.rows.iter().map(id).collect()
}

/// PBX-010: the cursor of a reader never passes a number that an open transaction may still commit, whatever that does.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_waits_for_every_transaction_that_may_still_commit() {
    for server in [MAIN, NEWEST] {
        let Some(fixture) = Fixture::on(server).await else { continue };
        let store = fixture.store().await;
        let prepared = format!("PREPARE TRANSACTION '{}'", fixture.schema);
        let endings: [(&str, &[&str], bool); 5] = [
            ("plain", &["COMMIT"], true),
            ("nested", &["RELEASE SAVEPOINT s", "COMMIT"], true),
            ("two-phase", &[&prepared, &format!("COMMIT PREPARED '{}'", fixture.schema)], true),
            ("taken-back", &["ROLLBACK TO SAVEPOINT s; COMMIT"], false),
            ("rolled-back", &["ROLLBACK"], false),
        ];
        let mut cursor = Cursor::default();
        for (name, ending, commits) in endings {
            let mut late = fixture.connection().await;
            run(&mut late, &format!("BEGIN; SAVEPOINT s; {}", account_insert(name, "1"))).await;
            let after = format!("{name}-after");
            store.write(Write { rows: vec![account_row(&after, "2")], now: None }).await.unwrap();
            let number = crate::kit::seq(&fixture, &after).await;
            for step in ending {
                for _ in 0..3 {
                    let fetched = fetch_from(&store, cursor).await;
                    cursor = fetched.cursor;
                    assert!(cursor.decided < number, "{name}: {step} is still to come");
                }
                run(&mut late, step).await;
            }
            let fetched = fetch_from(&store, cursor).await;
            assert_eq!(ids(&fetched).contains(&name.to_owned()), commits, "{name}: {fetched:?}");
            cursor = fetched.cursor;
            for _ in 0..3 {
                cursor = fetch_from(&store, cursor).await.cursor;
            }
            assert!(cursor.decided >= number, "{name}: nothing is open any more");
        }
    }
}

/// Plain writers beside an outbox, whose rows show that it goes on reading.
struct Beside<'a> {
    fixture: &'a Fixture,
    seen: &'a Seen,
    ticks: usize,
}

impl Beside<'_> {
    /// Several reads are made: rows of another group are written one after another, and delivered.
    async fn reads(&mut self) {
        for _ in 0..3 {
            self.ticks += 1;
            let tick = format!("tick-{}", self.ticks);
            self.fixture.execute(&account_insert(&tick, "ticks")).await;
            self.seen.wait_for(&[tick]).await;
        }
    }

    async fn begin(&self, sql: &str) -> PgConnection {
        let mut connection = self.fixture.connection().await;
        run(&mut connection, &format!("BEGIN; {sql}")).await;
        connection
    }
}

/// The deliveries of one group.
fn of_group(seen: &Seen, group: &str) -> Vec<String> {
    seen.ids().into_iter().filter(|id| id.starts_with(group)).collect()
}

/// PBX-010, PBX-024: a row whose number was drawn early and which commits late is delivered, and before what was begun
/// after its commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_commit_is_delivered_and_in_order() {
    for server in [MAIN, NEWEST] {
        let Some(fixture) = Fixture::on(server).await else { continue };
        let seen = Seen::new();
        let outbox =
            seen.hear(Outbox::ordered(fixture.store().await)).poll_interval(POLL).start().await.unwrap();
        let mut beside = Beside { fixture: &fixture, seen: &seen, ticks: 0 };
        let mut plain = beside.begin(&account_insert("plain-1", "plain")).await;
        let mut nested = beside
            .begin(&format!(
                "SAVEPOINT s; {}; ROLLBACK TO SAVEPOINT s; {}; SAVEPOINT s; {}; RELEASE SAVEPOINT s",
                account_insert("nested-0", "nested"),
                account_insert("nested-1", "nested"),
                account_insert("nested-2", "nested")
            ))
            .await;
        beside.reads().await;
        let mut two_phase = beside.begin(&account_insert("phase-1", "phase")).await;
        let mut undone = beside.begin(&account_insert("undone-0", "undone")).await;
        run(&mut two_phase, &format!("PREPARE TRANSACTION '{}'", fixture.schema)).await;
        beside.reads().await;
        run(&mut nested, "COMMIT").await;
        fixture.execute(&account_insert("nested-3", "nested")).await;
        beside.reads().await;
        run(&mut undone, "ROLLBACK").await;
        fixture.execute(&account_insert("undone-1", "undone")).await;
        beside.reads().await;
        fixture.execute(&format!("COMMIT PREPARED '{}'", fixture.schema)).await;
        fixture.execute(&account_insert("phase-2", "phase")).await;
        beside.reads().await;
        run(&mut plain, "COMMIT").await;
        fixture.execute(&account_insert("plain-2", "plain")).await;
        beside.reads().await;
        let last = ["plain-2", "phase-2", "nested-3", "undone-1"].map(str::to_owned);
        seen.wait_for(&last).await;
        outbox.close().await;
        assert_eq!(of_group(&seen, "plain"), ["plain-1", "plain-2"]);
        assert_eq!(of_group(&seen, "nested"), ["nested-1", "nested-2", "nested-3"]);
        assert_eq!(of_group(&seen, "phase"), ["phase-1", "phase-2"]);
        assert_eq!(of_group(&seen, "undone"), ["undone-1"]);
        assert_eq!(of_group(&seen, "tick").len(), beside.ticks);
    }
}
