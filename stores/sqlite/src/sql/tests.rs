//! Statements use their indexes, have a purpose and a use, and keys spread.

use rusqlite::Connection;
use uuid::Uuid;

use super::*;
use crate::migrate;
use pillarbox::model::EventId;
use pillarbox::port::{Items, Native};

fn tables() -> (Connection, Sql) {
    tables_of(&Names::new(&TableName::default(), Layout::Native))
}

fn tables_of(names: &Names) -> (Connection, Sql) {
    let (connection, sql) = (Connection::open_in_memory().unwrap(), Sql::new(names));
    let script = names.either(migrate::script::<Native>(&sql), migrate::script::<Items>(&sql));
    connection.execute_batch(&script).unwrap();
    (connection, sql)
}

/// 100,000 done rows, some dead, pending, delayed and queued ones.
fn filled() -> (Connection, Sql) {
    let (connection, sql) = tables();
    connection
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100600)
             INSERT INTO outbox_event (event_id, event_type, payload, status, lane, done_at, available_at)
             SELECT 'id-' || i, 'T', '{}', CASE WHEN i <= 100000 THEN 1 WHEN i <= 100200 THEN 3 ELSE 0 END,
                 CASE WHEN i > 100500 THEN -2 WHEN i > 100400 THEN -1 WHEN i > 100300 THEN 64 END,
                 CASE WHEN i <= 100200 THEN i END, i
             FROM n;
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO outbox_join (join_id, grouping_key, expected_steps, status, created_at, updated_at)
             SELECT 'j-' || i, 'k-' || (i / 4), 3, CASE WHEN i < 9000 THEN 1 ELSE 0 END, i, i FROM n;
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
             INSERT INTO outbox_join_member (join_id, event_id, created_at)
             SELECT 'j-' || (i / 3), 'id-' || i, i FROM n;",
        )
        .unwrap();
    (connection, sql)
}

fn plan(connection: &Connection, statement: &str) -> String {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let steps = explain.raw_query().mapped(|row| row.get::<_, String>(3)).map(Result::unwrap);
    steps.collect::<Vec<_>>().join("; ")
}

/// EVT-040
#[test]
fn every_statement_finds_its_rows_by_an_index_before_and_after_statistics() {
    let (connection, sql) = filled();
    let wanted = [
        (&sql.fetch_slots, "outbox_event_pending (seq>?)"),
        (&sql.fetch_group, "outbox_event_pending (seq>?)"),
        (&sql.first_pending, "outbox_event_pending (seq>?)"),
        (&sql.fetch_due, "outbox_event_pending"),
        (&sql.claim_queue, "outbox_event_queue (available_at<?)"),
        (&sql.claim_topic, "outbox_event_topic (event_type=? AND available_at<?)"),
        (&sql.due_topics, "outbox_event_topic (event_type>?)"),
        (&sql.claim_row, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.promotable, "outbox_event_delayed (available_at<?)"),
        (&sql.next_due, "outbox_event_delayed"),
        (&sql.later_due, "outbox_event_delayed (available_at>?)"),
        (&sql.ended.held, "outbox_event_ended (status=? AND done_at<?)"),
        (&sql.slots_sweep, "outbox_event_pending"),
        (&sql.written, "outbox_event_message (message_id=?)"),
        (&sql.stats_ended, "outbox_event_ended (status=?)"),
        (&sql.claim, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.done, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.done_delete, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.retry, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.dead, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.release, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.delay, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.attempt, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.reused, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.purge, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.forget, "outbox_attempt_event (event_id=?)"),
        (&sql.show, "sqlite_autoindex_outbox_event_1 (event_id=?)"),
        (&sql.revive, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.locate, "sqlite_autoindex_outbox_event_1 (event_id=?)"),
        (&sql.cancellable, "sqlite_autoindex_outbox_event_1 (event_id=?)"),
        (&sql.cancel, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.set_aside, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.list.among, "sqlite_autoindex_outbox_event_1 (event_id=?"),
        (&sql.list.pending, "outbox_event_pending (seq>?)"),
        (&sql.list.dead, "outbox_event_ended (status=?"),
        (&sql.dead_matching.dead, "outbox_event_ended (status=?"),
        (&sql.count.dead, "outbox_event_ended (status=?"),
        (&sql.reap, "outbox_event_pending"),
        (&sql.extend, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.joined, "INTEGER PRIMARY KEY (rowid=?)"),
        (&sql.step_show, "sqlite_autoindex_outbox_event_1 (event_id=?)"),
        (&sql.step_mark, "sqlite_autoindex_outbox_event_1 (event_id=?)"),
        (&sql.join_show, "sqlite_autoindex_outbox_join_1 (join_id=?)"),
        (&sql.join_count, "sqlite_autoindex_outbox_join_1 (join_id=?)"),
        (&sql.joins, "outbox_join_created"),
        (&sql.joins_grouped, "outbox_join_grouping (grouping_key=?)"),
        (&sql.joins_ended, "outbox_join_ended (updated_at<?)"),
        (&sql.members, "PRIMARY KEY (join_id=?)"),
        (&sql.member_show, "PRIMARY KEY (join_id=? AND event_id=?)"),
        (&sql.member_end, "outbox_join_member_event (event_id=?)"),
    ];
    for analyzed in [false, true] {
        if analyzed {
            connection.execute_batch("ANALYZE").unwrap();
        }
        for (statement, index) in wanted {
            let plan = plan(&connection, statement);
            assert!(plan.contains(index), "analyzed {analyzed}: {statement}\n{plan}");
        }
        for statement in [
            &sql.fetch_slots,
            &sql.fetch_group,
            &sql.fetch_due,
            &sql.claim_queue,
            &sql.promotable,
            &sql.joins,
            &sql.joins_grouped,
            &sql.joins_ended,
            &sql.members,
        ] {
            assert!(!plan(&connection, statement).contains("TEMP B-TREE"), "sorts: {statement}");
        }
    }
}

/// RLY-011: a take costs what it takes, not what waits.
#[test]
fn a_leader_steps_from_group_to_group_by_the_index() {
    let names = Names::new(&TableName::usual(Layout::Flowcatalyst), Layout::Flowcatalyst);
    let (connection, sql) = tables_of(&names);
    for (statement, index) in [
        (&sql.group_first, "COVERING INDEX idx_outbox_events_status (status=? AND message_group>?)"),
        (&sql.group_next, "COVERING INDEX idx_outbox_events_status (status=? AND message_group>?)"),
        (&sql.take, "INDEX idx_outbox_events_status (status=? AND message_group=?)"),
        (&sql.first_pending, "INDEX idx_outbox_events_status (status=?)"),
        (&sql.recover, "INDEX idx_outbox_events_status (status=?)"),
    ] {
        let plan = plan(&connection, statement);
        assert!(plan.contains(index), "{statement}\n{plan}");
        assert!(!plan.contains("TEMP B-TREE FOR ORDER BY"), "sorts: {statement}\n{plan}");
    }
}

#[test]
fn every_statement_is_understood_and_opens_with_its_purpose() {
    for (topic, name) in Sql::DECLARED.iter().copied().flatten() {
        // What makes the tables was run already.
        if name.starts_with("create_") || ["node_state", "joined_add", "quarantine_add"].contains(name) {
            continue;
        }
        let layout = if *topic == "items" { Layout::Flowcatalyst } else { Layout::Native };
        let names = Names::new(&TableName::default(), layout);
        let (connection, _) = tables_of(&names);
        let file = format!("{}/sql/{topic}.sql", env!("CARGO_MANIFEST_DIR"));
        let text = pillarbox_store_kit::statement(std::fs::read_to_string(file).unwrap().leak(), name);
        let opening: Vec<&str> = text.lines().take_while(|line| line.starts_with("-- ")).collect();
        assert!(opening.iter().any(|line| line.contains("lock")), "{topic}: {name}: {opening:?}");
        let statement = match text {
            text if text.contains("{selected}") => names.selecting(text).any,
            text => names.statement(&text.replace("{free}", "true")),
        };
        connection.prepare(&statement).unwrap_or_else(|error| panic!("{topic}: {name}: {error}"));
    }
}

fn spread(connection: &Connection, keys: impl Iterator<Item = String>) -> f64 {
    connection.execute_batch("DELETE FROM outbox_event; BEGIN").unwrap();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES (?1, 'T', '{}')";
    for key in keys {
        connection.prepare_cached(insert).unwrap().execute([key]).unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
    let most = "SELECT max(n) * 64.0 / sum(n) FROM (SELECT count(*) AS n FROM outbox_event GROUP BY slot)";
    connection.query_row(most, [], |row| row.get(0)).unwrap()
}

#[test]
fn keys_of_all_kinds_spread_over_the_slots() {
    let (connection, _) = tables();
    let kinds: [(&str, Vec<String>); 8] = [
        ("ulid", (0..2_000).map(|_| EventId::ulid().to_string()).collect()),
        ("uuid v7", (0..2_000).map(|_| EventId::uuid_v7().to_string()).collect()),
        ("uuid v4", (0..2_000).map(|_| Uuid::new_v4().to_string()).collect()),
        ("tsid", (0..2_000).map(|_| EventId::tsid().to_string()).collect()),
        ("Order/1", (1..=1_000).map(|n| format!("Order/{n}")).collect()),
        ("large numbers", (0..1_000).map(|n| format!("Order/{}", 1_000_000_000 + n)).collect()),
        ("number first", (0..1_000).map(|n| format!("{n}/orders/of/a/customer")).collect()),
        ("beyond ASCII", (0..1_000).map(|n| format!("注文-{n}-東京")).collect()),
    ];
    for (kind, keys) in kinds {
        let most = spread(&connection, keys.into_iter());
        assert!(most < 4.0, "{kind}: the fullest slot has {most} times the mean");
    }
    let outside =
        "SELECT count(*) FROM outbox_event WHERE typeof(slot) <> 'integer' OR slot NOT BETWEEN 0 AND 63";
    assert_eq!(connection.query_row(outside, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
