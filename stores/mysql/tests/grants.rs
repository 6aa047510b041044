//! The grants of the guide, taken from its text: with them everything works, and without any one of them something does not.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests do")]

use std::io::Write as _;

use pillarbox::model::{GroupKey, NodeId};
use pillarbox::port::{Admin, ErrorKind, GroupAction, GroupChange};
use pillarbox_conformance::{
    FORBIDDEN_TO_WRITERS, deliver_native, fill_items, grants_of, operate, relay_items, work_queue,
    write_native,
};
use pillarbox_mysql::sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Executor, raw_sql};
use pillarbox_mysql::{MysqlItemStore, MysqlStore};
use uuid::Uuid;

use crate::kit::Fixture;

#[path = "store/kit.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest of it")]
mod kit;

const GUIDE: &str = include_str!("../../../docs/guides/mysql.md");
const USERS: [&str; 6] =
    ["shop_migrate", "shop_write", "shop_deliver", "shop_work", "shop_operate", "shop_relay"];
const GRANTS: &str = "Grants";
const ITEM_GRANTS: &str = "Grants for FlowCatalyst's tables";

/// What needs the right to grant.
const TRIAL: &str = "GRANT SELECT ON shop.* TO shop_migrate";

/// The guide's users, under names of this test's own.
struct Site {
    fixture: Fixture,
    suffix: String,
}

impl Site {
    async fn all() -> Vec<Self> {
        let mut sites = Vec::new();
        for fixture in Fixture::all().await {
            let suffix = fixture.database[fixture.database.len() - 12..].to_owned();
            let site = Self { fixture, suffix };
            for user in USERS {
                site.run(&format!("CREATE USER {user} IDENTIFIED BY 'secret'")).await;
            }
            if site.fixture.pool.execute(raw_sql(AssertSqlSafe(site.own(TRIAL)))).await.is_err() {
                let _ = writeln!(
                    std::io::stdout(),
                    "could not run: grants: the user of the tests may grant nothing"
                );
                site.clear().await;
                continue;
            }
            site.run("GRANT CREATE, ALTER, INDEX, SELECT, INSERT, UPDATE ON shop.* TO shop_migrate").await;
            site.store("shop_migrate").migrate().await.unwrap();
            site.items("shop_migrate").migrate().await.unwrap();
            for [privilege, thing, user] in [grants(GRANTS), grants(ITEM_GRANTS)].concat() {
                site.grant("GRANT", &privilege, &thing, &user).await;
            }
            sites.push(site);
        }
        sites
    }

    fn own(&self, sql: &str) -> String {
        let sql = sql.replace("shop.", &format!("{}.", self.fixture.database));
        USERS.iter().fold(sql, |sql, user| sql.replace(user, &format!("{user}_{}", self.suffix)))
    }

    async fn run(&self, sql: &str) {
        self.fixture.pool.execute(raw_sql(AssertSqlSafe(self.own(sql)))).await.unwrap();
    }

    /// Gives or takes a privilege. People may what a node may, a worker what a writer and a node may.
    async fn grant(&self, verb: &str, privilege: &str, thing: &str, user: &str) {
        let to = if verb == "GRANT" { "TO" } else { "FROM" };
        let users = match user {
            "shop_deliver" => vec![user, "shop_work", "shop_operate"],
            "shop_write" => vec![user, "shop_work"],
            _ => vec![user],
        };
        for user in users {
            self.run(&format!("{verb} {privilege} ON {thing} {to} {user}")).await;
        }
    }

    /// A join for a purge to find.
    async fn ended_join(&self) {
        self.run(
            "INSERT INTO shop.outbox_join (join_id, expected_steps, status, created_at, updated_at)
             VALUES ('old', 1, 1, '2001-01-01', '2001-01-01') ON DUPLICATE KEY UPDATE status = 1",
        )
        .await;
    }

    fn pool(&self, user: &str) -> MySqlPool {
        let options = self.fixture.options.clone().username(&self.own(user)).password("secret");
        MySqlPoolOptions::new().max_connections(2).connect_lazy_with(options)
    }

    fn store(&self, user: &str) -> MysqlStore {
        MysqlStore::builder(self.pool(user)).general_connections(1).open()
    }

    /// The same on FlowCatalyst's tables.
    fn items(&self, user: &str) -> MysqlItemStore {
        MysqlStore::builder(self.pool(user)).general_connections(1).open_items()
    }

    /// What a plain statement of a user is answered.
    async fn plain(&self, user: &str, sql: &str) -> Result<u64, String> {
        let done = self.pool(user).execute(raw_sql(AssertSqlSafe(self.own(sql)))).await;
        done.map(|done| done.rows_affected()).map_err(|error| error.to_string())
    }

    async fn clear(self) {
        for user in USERS {
            self.run(&format!("DROP USER {user}")).await;
        }
    }
}

/// The guide's grants but those of the user that migrates, who has them on all tables.
fn grants(heading: &str) -> Vec<[String; 3]> {
    grants_of(GUIDE, heading).into_iter().filter(|grant| grant[2] != "shop_migrate").collect()
}

fn random_node() -> NodeId {
    NodeId::from_random(Uuid::now_v7().as_u128())
}

/// EVT-040, EVT-048, OBX-123: each user does its work with the grants of the guide, and no more than that.
#[tokio::test]
async fn users_work_with_the_grants_of_the_guide_and_can_do_no_more() {
    for site in Site::all().await {
        let rows = write_native(&site.store("shop_write")).await.unwrap();
        site.ended_join().await;
        deliver_native(&site.store("shop_deliver"), random_node(), &rows).await.unwrap();
        work_queue(&site.store("shop_work")).await.unwrap();
        operate(&site.store("shop_operate")).await.unwrap();
        let forbidden = FORBIDDEN_TO_WRITERS.map(|sql| ("shop_write", sql));
        for (user, sql) in forbidden.into_iter().chain([
            ("shop_deliver", "DELETE FROM shop.outbox_group"),
            ("shop_deliver", "SELECT * FROM shop.outbox_audit"),
            ("shop_write", "SELECT * FROM shop.outbox_join"),
            ("shop_work", "SELECT * FROM shop.outbox_audit"),
            ("shop_operate", "DROP TABLE shop.outbox_event"),
        ]) {
            assert!(site.plain(user, sql).await.unwrap_err().contains("denied"), "{user}: {sql}");
        }
        site.clear().await;
    }
}

/// PBX-155: the actions of a relay's admin API, and what else a relay does.
#[tokio::test]
async fn a_relay_whose_admin_changes_groups_needs_what_people_have() {
    for site in Site::all().await {
        let rows = write_native(&site.store("shop_write")).await.unwrap();
        site.ended_join().await;
        deliver_native(&site.store("shop_operate"), random_node(), &rows).await.unwrap();
        let actions = [GroupAction::Pause, GroupAction::Resume, GroupAction::Unblock, GroupAction::Skip];
        for action in actions {
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
}

/// EVT-040: without any one of them something is refused, and the error says that it is a permission.
#[tokio::test]
async fn no_grant_of_the_guide_is_too_much() {
    for site in Site::all().await {
        let grants = grants(GRANTS);
        assert!(grants.len() > 20, "{grants:?}");
        for [privilege, table, user] in grants {
            let rows = write_native(&site.store("shop_write")).await.unwrap();
            site.ended_join().await;
            site.grant("REVOKE", &privilege, &table, &user).await;
            let answer = match user.as_str() {
                "shop_write" => write_native(&site.store(&user)).await.map(drop),
                "shop_deliver" => deliver_native(&site.store(&user), random_node(), &rows).await,
                "shop_work" => work_queue(&site.store(&user)).await,
                _ => operate(&site.store(&user)).await,
            };
            site.grant("GRANT", &privilege, &table, &user).await;
            let error = answer.expect_err(&format!("{user} does not need {privilege} on {table}"));
            assert_eq!(error.kind(), ErrorKind::Permission, "{privilege} on {table} for {user}: {error}");
            // What the unhappy node left.
            site.run(
                "DELETE FROM shop.outbox_event; DELETE FROM shop.outbox_group; DELETE FROM shop.outbox_node",
            )
            .await;
            site.run(
                "UPDATE shop.outbox_slot SET holder = NULL; DELETE FROM shop.outbox_slot WHERE slot > 63",
            )
            .await;
        }
        site.clear().await;
    }
}

/// PBX-082, EVT-040: a relay works with the grants for FlowCatalyst's tables, and without any one of them something is refused.
#[tokio::test]
async fn a_relay_works_with_the_grants_for_items_and_needs_each() {
    for site in Site::all().await {
        fill_items(&site.items("shop_migrate")).await.unwrap();
        relay_items(&site.items("shop_relay"), random_node()).await.unwrap();
        for [privilege, table, user] in grants(ITEM_GRANTS) {
            site.run(
                "DELETE FROM shop.outbox_events; DELETE FROM shop.outbox_events_group; DELETE FROM shop.outbox_events_node; \
                 UPDATE shop.outbox_events_slot SET holder = NULL; DELETE FROM shop.outbox_events_slot WHERE slot > 0",
            )
            .await;
            fill_items(&site.items("shop_migrate")).await.unwrap();
            site.grant("REVOKE", &privilege, &table, &user).await;
            let answer = relay_items(&site.items(&user), random_node()).await;
            site.grant("GRANT", &privilege, &table, &user).await;
            let error = answer.expect_err(&format!("{user} does not need {privilege} on {table}"));
            assert_eq!(error.kind(), ErrorKind::Permission, "{privilege} on {table} for {user}: {error}");
        }
        site.clear().await;
    }
}

/// PBX-104: each grant that is missing is named, and is enough when it is run.
#[tokio::test]
async fn rights_that_are_lacking_are_told_as_the_grants_to_run() {
    for site in Site::all().await {
        let (native, items) = (site.store("shop_deliver"), site.items("shop_relay"));
        for (store, user, heading) in [
            (&native as &dyn Admin, "shop_deliver", GRANTS),
            (&items as &dyn Admin, "shop_relay", ITEM_GRANTS),
        ] {
            let lacking = store.lacking().await.unwrap();
            assert_eq!(lacking.deliver, Vec::<String>::new(), "{user} has what the guide gives");
            let may_not = lacking.purge;
            for [privilege, thing, _] in grants(heading).into_iter().filter(|grant| grant[2] == user) {
                site.run(&format!("REVOKE {privilege} ON {thing} FROM {user}")).await;
                let lacking = store.lacking().await.unwrap();
                let mut told = [lacking.deliver, lacking.purge].concat();
                told.retain(|grant| !may_not.contains(grant));
                assert_eq!(told.len(), 1, "{privilege} on {thing}: {told:?}");
                assert!(told[0].starts_with(&format!("GRANT {privilege} ON ")), "{told:?}");
                site.fixture.pool.execute(raw_sql(AssertSqlSafe(told[0].clone()))).await.unwrap();
                let lacking = store.lacking().await.unwrap();
                assert_eq!(lacking.deliver, Vec::<String>::new(), "{told:?} was run");
            }
        }
        assert_eq!(items.lacking().await.unwrap().purge.len(), 1, "it may not delete items");
        site.clear().await;
    }
}
