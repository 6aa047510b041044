//! The grants of the guide, taken from its text: with them everything works, and without any one of them something does not.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::engine::{Engine, EngineParts, EngineSettings};
use pillarbox::model::{GroupKey, NodeId, Status, TableName};
use pillarbox::port::{
    Admin, AnyTable, Delivery, ErrorKind, GroupAction, GroupChange, Handed, NoMetrics, OnDone, Purge,
    PurgeStatus, Select, Sink, StoreError, Verdict,
};
use pillarbox_conformance::{
    FORBIDDEN_TO_WRITERS, deliver_native, fill_items, grants_of, operate, relay_items, sql_of, work_queue,
    write_native,
};
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{AssertSqlSafe, Executor};
use pillarbox_postgres::{Pooler, PostgresItemStore, PostgresStore, PostgresWakeUp};
use uuid::Uuid;

const SERVER: &str = "PILLARBOX_TEST_POSTGRES_URL";
const GUIDE: &str = include_str!("../../../docs/guides/postgresql.md");
const ROLES: [&str; 6] =
    ["shop_migrate", "shop_write", "shop_deliver", "shop_work", "shop_operate", "shop_relay"];
const GRANTS: &str = "Grants";
const ITEM_GRANTS: &str = "Grants for FlowCatalyst's tables";

/// The guide's schema and roles, under names of this test's own.
struct Site {
    options: PgConnectOptions,
    master: PgPool,
    suffix: String,
}

impl Site {
    /// None, and a line that says so, where no server is named.
    async fn new(test: &str) -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            let mut out = std::io::stdout().lock();
            writeln!(out, "could not run: {test}: {SERVER} is not set; `cargo xtask test` starts a server")
                .unwrap();
            return None;
        };
        let options: PgConnectOptions = server.parse().unwrap();
        let master = PgPoolOptions::new().max_connections(2).connect_with(options.clone()).await.unwrap();
        let site = Self { options, master, suffix: Uuid::now_v7().simple().to_string() };
        site.run(&sql_of(GUIDE, "Roles")).await;
        site.store("shop_migrate").migrate().await.unwrap();
        site.items("shop_migrate").migrate().await.unwrap();
        for heading in [GRANTS, ITEM_GRANTS] {
            site.run(&sql_of(GUIDE, heading)).await;
        }
        Some(site)
    }

    fn own(&self, sql: &str) -> String {
        let sql = sql.replace("shop.", &format!("shop_{}.", self.suffix));
        let sql = sql.replace("SCHEMA shop ", &format!("SCHEMA shop_{} ", self.suffix));
        ROLES.iter().fold(sql, |sql, role| sql.replace(role, &format!("{role}_{}", self.suffix)))
    }

    async fn run(&self, sql: &str) {
        self.master.execute(AssertSqlSafe(self.own(sql))).await.unwrap();
    }

    /// A pool whose sessions are what the role may be.
    fn pool(&self, role: &str) -> PgPool {
        let role = format!("{role}_{}", self.suffix);
        PgPoolOptions::new()
            .max_connections(2)
            .connect_lazy_with(self.options.clone().options([("role", role)]))
    }

    fn store(&self, role: &str) -> PostgresStore {
        let builder =
            PostgresStore::builder(self.pool(role)).pooler(Pooler::None).wake_up(PostgresWakeUp::Off);
        builder.schema(TableName::new(format!("shop_{}", self.suffix)).unwrap()).general_connections(1).open()
    }

    /// The same on FlowCatalyst's tables.
    fn items(&self, role: &str) -> PostgresItemStore {
        let builder =
            PostgresStore::builder(self.pool(role)).pooler(Pooler::None).wake_up(PostgresWakeUp::Off);
        let builder = builder.schema(TableName::new(format!("shop_{}", self.suffix)).unwrap());
        builder.general_connections(1).open_items()
    }

    /// What a plain statement of a role is answered.
    async fn plain(&self, role: &str, sql: &str) -> Result<u64, String> {
        let done = self.pool(role).execute(AssertSqlSafe(self.own(sql))).await;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    async fn clear(self) {
        self.run("DROP SCHEMA shop CASCADE").await;
        for role in ROLES {
            self.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
        }
    }
}

fn random_node() -> NodeId {
    NodeId::from_random(Uuid::now_v7().as_u128())
}

/// The same on FlowCatalyst's tables.
async fn operate_items(store: &PostgresItemStore) -> Result<(), StoreError> {
    operate(store).await?;
    let purge = Purge { status: PurgeStatus::Dead, older_than: Duration::ZERO, limit: 10, now: None };
    store.purge(purge).await.map(drop)
}

/// EVT-040, EVT-048, OBX-123, OBX-124: each role does its work with the grants of the guide, and no more than that.
#[tokio::test]
async fn roles_work_with_the_grants_of_the_guide_and_can_do_no_more() {
    let Some(site) = Site::new("grants").await else { return };
    let rows = write_native(&site.store("shop_write")).await.unwrap();
    deliver_native(&site.store("shop_deliver"), random_node(), &rows).await.unwrap();
    work_queue(&site.store("shop_work")).await.unwrap();
    operate(&site.store("shop_operate")).await.unwrap();
    let forbidden = FORBIDDEN_TO_WRITERS.map(|sql| ("shop_write", sql));
    for (role, sql) in forbidden.into_iter().chain([
        (
            "shop_deliver",
            "INSERT INTO shop.outbox_event (event_id, event_type, payload) VALUES ('i', 't', '{}')",
        ),
        (
            "shop_deliver",
            "INSERT INTO shop.outbox_audit (at, actor, action, target) VALUES (now(), 'a', 'b', 'c')",
        ),
        ("shop_deliver", "DROP TABLE shop.outbox_event"),
        ("shop_deliver", "UPDATE shop.outbox_event SET payload = '{}'"),
        ("shop_work", "UPDATE shop.outbox_event SET message_group = 'x'"),
        ("shop_operate", "UPDATE shop.outbox_event SET headers = '{}'"),
        ("shop_relay", "UPDATE shop.outbox_events SET payload = '{}'"),
        ("shop_write", "SELECT * FROM shop.outbox_join"),
        (
            "shop_work",
            "INSERT INTO shop.outbox_audit (at, actor, action, target) VALUES (now(), 'a', 'b', 'c')",
        ),
    ]) {
        let refused = site.plain(role, sql).await.unwrap_err();
        assert!(
            refused.contains("permission denied") || refused.contains("must be owner"),
            "{role}: {sql}: {refused}"
        );
    }
    site.clear().await;
}

/// EVT-040: a writer in plain SQL reads nothing back, and needs two grants.
#[tokio::test]
async fn a_plain_writer_needs_to_insert_and_to_draw_a_number() {
    let Some(site) = Site::new("grants").await else { return };
    site.run("REVOKE SELECT (event_id, seq, lane, message_id) ON shop.outbox_event FROM shop_write").await;
    site.run("REVOKE SELECT ON shop.outbox_meta FROM shop_write").await;
    let insert =
        "INSERT INTO shop.outbox_event (event_id, event_type, payload) VALUES ('one', 'OrderPlaced', '{}')";
    assert_eq!(site.plain("shop_write", insert).await, Ok(1));
    for grant in ["INSERT (event_id) ON shop.outbox_event", "USAGE ON SEQUENCE shop.outbox_event_seq"] {
        site.run(&format!("REVOKE {grant} FROM shop_write")).await;
        let insert = insert.replace("'one'", "'two'");
        assert!(
            site.plain("shop_write", &insert).await.unwrap_err().contains("permission denied"),
            "{grant}"
        );
        site.run(&format!("GRANT {grant} TO shop_write")).await;
    }
    site.clear().await;
}

/// PBX-155: the actions of a relay's admin API, and what else a relay does.
#[tokio::test]
async fn a_relay_whose_admin_changes_groups_needs_what_people_have() {
    let Some(site) = Site::new("grants").await else { return };
    let rows = write_native(&site.store("shop_write")).await.unwrap();
    deliver_native(&site.store("shop_operate"), random_node(), &rows).await.unwrap();
    for action in [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip] {
        let by = "admin".to_owned();
        let change = GroupChange { group: GroupKey::new("z"), action, by, reason: None, now: None };
        // The node asks first: a change that is there already needs no right.
        let refused = site.store("shop_deliver").change_group(change.clone()).await;
        site.store("shop_operate").change_group(change).await.unwrap();
        let refused = refused.err().map(|error| error.kind());
        assert!(matches!(refused, None | Some(ErrorKind::Permission)), "{action:?}: {refused:?}");
        assert!(refused.is_some() || action != GroupAction::Pause, "a node may not pause");
    }
    site.clear().await;
}

/// EVT-040: without any one of them something is refused, and the error says that it is a permission.
#[tokio::test]
async fn no_grant_of_the_guide_is_too_much() {
    let Some(site) = Site::new("grants").await else { return };
    let grants = grants_of(GUIDE, GRANTS);
    assert!(grants.len() > 20, "{grants:?}");
    for [privilege, thing, role] in grants {
        let rows = write_native(&site.store("shop_write")).await.unwrap();
        site.run(&format!("REVOKE {privilege} ON {thing} FROM {role}")).await;
        let answer = match role.as_str() {
            "shop_write" => write_native(&site.store(&role)).await.map(drop),
            "shop_deliver" => deliver_native(&site.store(&role), random_node(), &rows).await,
            "shop_work" => work_queue(&site.store(&role)).await,
            _ => operate(&site.store(&role)).await,
        };
        site.run(&format!("GRANT {privilege} ON {thing} TO {role}")).await;
        let error = answer.expect_err(&format!("{role} does not need {privilege} on {thing}"));
        assert_eq!(error.kind(), ErrorKind::Permission, "{privilege} on {thing} for {role}: {error}");
        // What the unhappy node left.
        site.run("DELETE FROM shop.outbox_event; DELETE FROM shop.outbox_group").await;
        site.run("DELETE FROM shop.outbox_node; UPDATE shop.outbox_slot SET holder = NULL; DELETE FROM shop.outbox_slot WHERE slot > 63").await;
    }
    site.clear().await;
}

/// PBX-082, EVT-040: a relay works with the grants for FlowCatalyst's tables, and without any one of them something is refused.
#[tokio::test]
async fn a_relay_works_with_the_grants_for_items_and_needs_each() {
    let Some(site) = Site::new("grants").await else { return };
    fill_items(&site.items("shop_migrate")).await.unwrap();
    relay_items(&site.items("shop_relay"), random_node()).await.unwrap();
    operate_items(&site.items("shop_operate")).await.unwrap();
    for [privilege, thing, role] in grants_of(GUIDE, ITEM_GRANTS) {
        site.run("DELETE FROM shop.outbox_events; DELETE FROM shop.outbox_events_group").await;
        site.run("DELETE FROM shop.outbox_events_node; DELETE FROM shop.outbox_events_slot WHERE slot > 0")
            .await;
        site.run("UPDATE shop.outbox_events_slot SET holder = NULL").await;
        fill_items(&site.items("shop_migrate")).await.unwrap();
        site.run(&format!("REVOKE {privilege} ON {thing} FROM {role}")).await;
        let answer = match role.as_str() {
            "shop_relay" => relay_items(&site.items(&role), random_node()).await,
            _ => operate_items(&site.items(&role)).await,
        };
        site.run(&format!("GRANT {privilege} ON {thing} TO {role}")).await;
        let error = answer.expect_err(&format!("{role} does not need {privilege} on {thing}"));
        assert_eq!(error.kind(), ErrorKind::Permission, "{privilege} on {thing} for {role}: {error}");
    }
    site.clear().await;
}

/// PBX-104: whatever a node lacks is told before the first delivery, with the statement that grants it.
#[tokio::test]
async fn each_right_of_a_node_is_missed_and_granted_as_printed() {
    let Some(site) = Site::new("grants").await else { return };
    let store = site.store("shop_deliver");
    let lacking = store.lacking().await.unwrap();
    assert_eq!((lacking.deliver.len(), lacking.purge.len()), (0, 0), "{lacking:?}");
    let things = ["SEQUENCE shop.outbox_event_seq", "shop.outbox_event", "shop.outbox_group"];
    for [privilege, thing, role] in grants_of(GUIDE, GRANTS) {
        if role != "shop_deliver" || !things.contains(&thing.as_str()) {
            continue;
        }
        site.run(&format!("REVOKE {privilege} ON {thing} FROM {role}")).await;
        let lacking = store.lacking().await.unwrap();
        let printed = [lacking.deliver, lacking.purge].concat();
        let [grant] = printed.as_slice() else { panic!("{privilege} on {thing}: {printed:?}") };
        let word = privilege.split(' ').next().unwrap_or_default();
        assert!(grant.starts_with(&format!("GRANT {word}")), "{privilege} on {thing}: {grant}");
        assert_eq!(grant.contains(" ON SEQUENCE "), thing.starts_with("SEQUENCE"), "{grant}");
        site.master.execute(AssertSqlSafe(grant.clone())).await.unwrap();
        let lacking = store.lacking().await.unwrap();
        assert_eq!((lacking.deliver.len(), lacking.purge.len()), (0, 0), "{grant}: {lacking:?}");
    }
    site.clear().await;
}

/// PBX-083: without the right to delete, everything is delivered and kept, whatever becomes of done events by the settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_right_to_delete_keeps_what_is_done() {
    let Some(site) = Site::new("grants").await else { return };
    let rows = write_native(&site.store("shop_write")).await.unwrap();
    site.run("REVOKE DELETE ON shop.outbox_event FROM shop_deliver").await;
    let store = site.store("shop_deliver");
    let settings = EngineSettings { on_done: OnDone::Delete, ..EngineSettings::default() };
    let (table, metrics) = (AnyTable::Native(Arc::new(store)), Arc::new(NoMetrics));
    let parts = EngineParts { table, sink: Arc::new(Accepting), metrics, settings, seed: 1 };
    let mut engine = Engine::start(parts).await.unwrap();
    let done = Select { statuses: vec![Status::Done], ..Select::default() };
    let operator = site.store("shop_operate");
    // All but the one for later, of which one was written twice.
    let due = rows.iter().map(|row| &row.id).collect::<std::collections::BTreeSet<_>>().len() as u64 - 1;
    while operator.count(done.clone()).await.unwrap() < due {}
    engine.close().await;
    site.clear().await;
}

struct Accepting;

impl Sink for Accepting {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(async move { vec![Verdict::Accepted; batch.len()] })
    }
}
