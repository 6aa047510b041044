//! The same commands on PostgreSQL: a schema of its own on the server that a variable names.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::Duration;

use pillarbox::model::GroupKey;
use pillarbox::port::{Change, Counts};
use pillarbox_postgres::sqlx::postgres::{PgConnection, PgListener};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Connection, Executor};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::timeout;
use uuid::Uuid;

use crate::outbox::{Outbox, run};

const SERVER: &str = "PILLARBOX_TEST_POSTGRES_URL";

/// The server, and a schema that is not there yet; dropped in the end.
pub(crate) struct Fixture {
    pub(crate) server: String,
    pub(crate) schema: String,
}

impl Fixture {
    /// None, and a line that says so, where no server is named.
    pub(crate) fn new() -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            let mut out = std::io::stdout().lock();
            writeln!(
                out,
                "could not run: commands on postgres: {SERVER} is not set; `cargo xtask test` starts a server"
            )
            .unwrap();
            return None;
        };
        Some(Self { server, schema: format!("cli_{}", Uuid::now_v7().simple()) })
    }

    /// An outbox in the schema, which every command finds by the URL alone.
    pub(crate) fn outbox(&self) -> Outbox {
        run(&["migrate", "--url", &self.server, "--schema", &self.schema]).done();
        let join = if self.server.contains('?') { '&' } else { '?' };
        let url = format!("{}{join}options=-csearch_path%3D{}", self.server, self.schema);
        Outbox::at(TempDir::new().unwrap(), url)
    }

    /// Runs a command with the schema as an option.
    pub(crate) fn run(&self, arguments: &[&str]) -> crate::outbox::Ran {
        run(&[arguments, &["--url", &self.server, "--schema", &self.schema]].concat())
    }

    /// Runs statements beside the binary.
    pub(crate) fn execute(&self, sql: &str) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut connection = PgConnection::connect(&self.server).await.unwrap();
            connection.execute(AssertSqlSafe(sql)).await.unwrap();
            connection.close().await.unwrap();
        });
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema));
    }
}

/// PBX-016: a command ends only after its notification was sent.
#[test]
fn every_write_notifies_the_listeners_of_its_table() {
    let Some(fixture) = Fixture::new() else { return };
    let table = format!("t_{}", Uuid::now_v7().simple());
    fixture.run(&["migrate", "--table", &table]).done();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    // The listener is dropped in the runtime too.
    let _entered = runtime.enter();
    let mut listener = runtime.block_on(async {
        let mut listener = PgListener::connect(&fixture.server).await.unwrap();
        listener.listen(&table).await.unwrap();
        listener
    });
    for round in 0..4 {
        let payload = ["--payload", "{}", "--table", &table];
        fixture.run(&[&["write", "--type", "t"][..], &payload].concat()).done();
        fixture.run(&[&["queue", "enqueue", "--topic", "t"][..], &payload].concat()).done();
        for command in ["write", "enqueue"] {
            let told = runtime.block_on(async { timeout(Duration::from_secs(10), listener.recv()).await });
            assert!(told.is_ok_and(|told| told.is_ok()), "{command} {round} did not notify");
        }
    }
}

/// PBX-174
#[test]
fn the_plain_insert_of_the_guide_enqueues_a_message() {
    let Some(fixture) = Fixture::new() else { return };
    let outbox = fixture.outbox();
    let guide = include_str!("../../../../docs/guides/queue.md");
    let (_, insert) = guide.split_once("```sql\n").unwrap();
    let insert = insert.split_once("```").unwrap().0;
    fixture.execute(&format!("SET search_path TO {}; {insert} NOTIFY outbox_event", fixture.schema));
    let claimed = outbox.claim("0b6c3b9e-6e0b-4c4b-9c1f-0c9a7c0d1e2f", "5m");
    assert_eq!(claimed.len(), 1);
    assert_eq!(
        (&claimed[0]["topic"], &claimed[0]["payload"]["text"]),
        (&json!("email.send"), &json!("{\"to\":\"ann\"}"))
    );
}

fn dead(error: &str, blocks: Option<&str>) -> Change {
    Change::Dead { error: error.to_owned(), counts: Counts::Made(1), blocks: blocks.map(GroupKey::new) }
}

/// EVT-140, EVT-141, PBX-022
#[test]
fn a_dead_event_is_found_shown_replayed_and_discarded() {
    let Some(fixture) = Fixture::new() else { return };
    let outbox = fixture.outbox();
    let id = outbox.write(&[
        "--type",
        "order.placed",
        "--payload",
        "{\"id\":7}",
        "--group",
        "Order/7",
        "--header",
        "a=b",
    ]);
    assert_eq!(outbox.shown(&id)["status"], "new");
    outbox.settle(&id, dead("no such currency", Some("Order/7")));

    let listed = outbox.run(&["dead", "list", "--json"]).done().json();
    assert_eq!((&listed[0]["id"], &listed[0]["last_error"]), (&json!(id), &json!("no such currency")));
    let shown = outbox.run(&["dead", "show", &id, "--json"]).done().json();
    assert_eq!((&shown["payload"]["text"], &shown["headers"]["a"]), (&json!("{\"id\":7}"), &json!("b")));
    assert_eq!(shown["failures"][0]["error"], "no such currency");
    let stats = outbox.run(&["stats", "--json"]).done().json();
    assert_eq!((&stats["store"]["kind"], &stats["events"]["dead"]), (&json!("postgres"), &json!(1)));
    assert_eq!(stats["groups"]["held"][0]["group"], "Order/7");

    outbox.run(&["dead", "replay", "--all", "--dry-run"]).done();
    outbox.run(&["dead", "replay", &id]).done();
    assert_eq!((&outbox.shown(&id)["status"], &outbox.shown(&id)["attempts"]), (&json!("new"), &json!(0)));
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json(), json!([]));
    outbox.run(&["dead", "replay", &id]).exits(3);

    outbox.settle(&id, dead("again", None));
    outbox.run(&["dead", "discard", "--type", "order.placed", "--yes"]).done();
    outbox.run(&["events", "show", &id]).exits(3);
    let audit: Vec<String> =
        outbox.audit().into_iter().map(|(by, action, _)| format!("{by} {action}")).collect();
    assert_eq!(audit, ["cli/tester discard", "cli/tester replay"]);
}

/// PBX-022, PBX-027
#[test]
fn groups_nodes_cancel_and_purge_work_as_on_every_store() {
    let Some(fixture) = Fixture::new() else { return };
    let outbox = fixture.outbox();
    outbox.run(&["groups", "pause", "Order/1", "--reason", "under review"]).done();
    assert_eq!(outbox.run(&["groups", "list", "--json"]).done().json()[0]["state"], "paused");
    outbox.run(&["groups", "resume", "Order/1"]).done();
    outbox.run(&["groups", "resume", "Order/1"]).exits(3);

    outbox.join("web-1");
    let nodes = outbox.run(&["nodes", "list", "--json"]).done().json();
    assert_eq!((&nodes[0]["label"], &nodes[0]["slots"]), (&json!("web-1"), &json!(65)));

    let ids = outbox.run(&["write", "--type", "load", "--count", "1200", "--json"]).done().json();
    assert_eq!(ids.as_array().unwrap().len(), 1_200);
    let first = ids[0].as_str().unwrap();
    outbox.run(&["events", "cancel", first]).done();
    outbox.run(&["events", "show", first]).exits(3);
    let once = ["write", "--type", "t", "--message-id", "m"];
    let (one, other) = (outbox.run(&once).done(), outbox.run(&once).exits(0).complains("nothing was added"));
    assert_eq!(one.stdout, other.stdout);

    outbox.delivered(&["--type", "t"]);
    let purged =
        outbox.run(&["purge", "--older-than", "0s", "--status", "done", "--yes", "--json"]).done().json();
    assert_eq!(purged["count"], 1);
    let left = outbox.run(&["stats", "--json"]).done().json();
    assert_eq!((&left["events"]["new"], &left["events"]["done"]), (&json!(1_200), &json!(0)));
}

/// OBX-001, OBX-016, OBX-032, OBX-089, OBX-093
#[test]
fn the_queue_and_its_joins_work_as_on_every_store() {
    let Some(fixture) = Fixture::new() else { return };
    crate::join::fan_out_and_in(&fixture.outbox());
}

/// EVT-048: the schema is made if it is not there, and named tables are found under their names only.
#[test]
fn a_new_schema_is_made_and_other_names_are_kept_apart() {
    let Some(fixture) = Fixture::new() else { return };
    let missing = fixture.run(&["stats", "--json"]).exits(1).error();
    assert_eq!(missing["kind"], "schema");
    assert!(missing["hint"].as_str().unwrap().contains("pillarbox migrate"));

    let made = fixture.run(&["migrate", "--json"]).done().json();
    assert_eq!(made, json!({"store": "postgres", "layout": "native", "from": 0, "to": 6}));
    assert!(fixture.run(&["migrate"]).done().stdout.starts_with("nothing to do"));
    fixture.run(&["migrate", "--table", "letters"]).done();
    let id = fixture.run(&["write", "--type", "t", "--table", "letters"]).done().stdout;
    fixture.run(&["events", "show", id.trim_end(), "--table", "letters"]).done();
    fixture.run(&["events", "show", id.trim_end()]).exits(3);
    fixture.run(&["write", "--type", "t", "--table", "nothing"]).exits(1).complains("pillarbox migrate");
    run(&["stats", "--url", &fixture.server, "--schema", "a b"]).exits(2).complains("schema");
}

#[test]
fn printed_sql_makes_the_schema_and_the_tables() {
    let Some(fixture) = Fixture::new() else { return };
    let print = ["migrate", "--print", "--url", "postgres:", "--schema", &fixture.schema];
    let sql = run(&print).done().stdout;
    fixture.execute(&sql);
    assert!(fixture.run(&["migrate"]).done().stdout.starts_with("nothing to do"));
    fixture.run(&["write", "--type", "t"]).done();
    assert!(
        !run(&["migrate", "--print", "--url", "postgres://no.such.host/x"])
            .done()
            .stdout
            .contains("CREATE SCHEMA")
    );
}

/// PBX-023: what can't be reached or is not let in says so, with its exit code and without the password.
#[test]
fn a_server_that_says_no_has_an_exit_code_and_no_password_is_shown() {
    // Bound and closed: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let down = format!("postgres://ada:pa55word@127.0.0.1:{port}/shop");
    for command in
        [&["stats"][..], &["migrate"], &["write", "--type", "t"], &["dead", "list"], &["nodes", "list"]]
    {
        let error = run(&[command, &["--url", &down, "--json"]].concat()).exits(5).error();
        assert_eq!(error["kind"], "unavailable");
        assert!(!error.to_string().contains("pa55word"), "{error}");
    }
    let Some(fixture) = Fixture::new() else { return };
    let (_, address) = fixture.server.split_once('@').unwrap();
    let (host, _) = address.split_once('/').unwrap();
    let kind = |url: &str, code| -> Value {
        run(&["stats", "--json", "--url", url]).exits(code).error()["kind"].clone()
    };
    assert_eq!(kind(&format!("postgres://nobody_here:pa55word@{address}"), 1), "permission");
    assert_eq!(kind(&fixture.server.replace(address, &format!("{host}/no_such_database")), 5), "unavailable");
}

/// RLY-072: a user whose rights do not suffice is told which, before anything is delivered.
#[test]
fn missing_rights_are_told_as_grants_before_anything_is_sent() {
    let Some(fixture) = Fixture::new() else { return };
    let flags = ["--url", &fixture.server, "--schema", &fixture.schema];
    run(&[&["migrate", "--layout", "flowcatalyst"][..], &flags].concat()).done();
    let (schema, user) = (&fixture.schema, format!("{}_relay", fixture.schema));
    fixture.execute(&format!("CREATE ROLE {user} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {user}"));
    let join = if fixture.server.contains('?') { '&' } else { '?' };
    let url = format!("{}{join}options=-crole%3D{user}", fixture.server);
    let relay = |more: &[&str]| {
        let relay = ["relay", "--url", &url, "--schema", schema, "--sink", "stdout:", "--until-empty"];
        run(&[&relay[..], &["--dispatch-jobs-table", ""], more].concat())
    };
    // The tables are there, only not for this user: that is not another layout.
    let told =
        |rights: &str, table: &str| format!("GRANT {rights} ON \"{schema}\".\"{table}\" TO \"{user}\"");
    let own = told("SELECT, UPDATE (status, retry_count, processed_at, error_message)", "outbox_events");
    relay(&[]).exits(1).complains(&own);
    fixture.execute(&own);
    relay(&[]).exits(1).complains(&told("SELECT", "outbox_events_meta"));
    fixture.execute(&format!("GRANT SELECT ON {schema}.outbox_events_meta TO {user}"));
    relay(&[]).exits(1).complains(&told("SELECT, INSERT, UPDATE, DELETE", "outbox_events_node"));
    fixture.execute(&format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.outbox_events_node, {schema}.outbox_events_slot TO {user};
         GRANT SELECT, INSERT, UPDATE ON {schema}.outbox_events_group TO {user}"
    ));
    relay(&["--retention-done", "7d"])
        .exits(0)
        .complains("nothing is purged: the database user lacks rights");
    fixture.execute(&format!("DROP OWNED BY {user}; DROP ROLE {user}"));
}

/// RLY-072, PBX-092
#[test]
fn the_printed_statements_can_be_run_twice() {
    let Some(fixture) = Fixture::new() else { return };
    for layout in ["native", "flowcatalyst"] {
        let sql = fixture.run(&["migrate", "--layout", layout, "--print"]).done().stdout;
        fixture.execute(&sql);
        fixture.execute(&sql);
        fixture.run(&["stats", "--layout", layout]).done();
        fixture.run(&["migrate", "--layout", layout]).done();
    }
}

/// PBX-070, OBX-064
#[cfg(unix)]
#[test]
fn a_message_that_kills_its_worker_dies_here_too() {
    let Some(fixture) = Fixture::new() else { return };
    crate::work::a_message_that_kills_its_worker_dies(&fixture.outbox());
}
