//! Isolation: our transactions read what is committed, whatever the default of the role or database is.

use std::time::Duration;

use pillarbox::port::{Admin, Cursor, Table};
use pillarbox_conformance::{account_insert, register};
use pillarbox_postgres::sqlx::postgres::PgPoolOptions;
use pillarbox_postgres::{Pooler, PostgresStore};

use crate::bouncer::{Bouncer, Next};
use crate::kit::{Fixture, could_not_run, fetch_from, run};
use crate::server::Server;

const STRICT: [&str; 2] =
    ["default_transaction_isolation=repeatable read", "default_transaction_isolation=serializable"];
/// The server is the test's own: whoever waits is the store.
const WAITS: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";

/// A store before a server of this default, and a way to the server beside it. The tables are in `public`.
struct Strict {
    fixture: Fixture,
    store: PostgresStore,
    _bouncer: Option<Bouncer>,
    _server: Server,
}

impl Strict {
    async fn direct(default: &str) -> Result<Self, String> {
        Self::over(Server::new(&[default])?, None).await
    }

    async fn pooled(default: &str) -> Result<Self, String> {
        let server = Server::new(&[default])?;
        let bouncer = Bouncer::new(&server, Next::Last)?;
        Self::over(server, Some(bouncer)).await
    }

    async fn over(server: Server, bouncer: Option<Bouncer>) -> Result<Self, String> {
        let fixture = Fixture::again(&server.url(), "public".to_owned());
        let url = bouncer.as_ref().map_or_else(|| server.url(), Bouncer::url);
        let pool = PgPoolOptions::new().connect_lazy_with(url.parse().unwrap());
        let pooler = if bouncer.is_some() { Pooler::Transaction } else { Pooler::None };
        let store = PostgresStore::builder(pool).pooler(pooler).open();
        store.migrate().await.unwrap();
        Ok(Self { fixture, store, _bouncer: bouncer, _server: server })
    }

    /// Both ways to a server, under each default.
    async fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for default in STRICT {
            let made = [Self::direct(default).await, Self::pooled(default).await];
            for strict in made {
                match strict {
                    Ok(strict) => all.push(strict),
                    Err(reason) => could_not_run("pillarbox-postgres under a strict isolation", &reason),
                }
            }
        }
        all
    }
}

/// PBX-010, PBX-035: a writer commits after the read's first statement began and before that lists who is writing. A read
/// in one snapshot would see neither the writer nor its row.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_between_a_snapshot_and_the_list_of_writers_is_not_passed_by() {
    for strict in Strict::all().await {
        let (fixture, store) = (&strict.fixture, &strict.store);
        let cursor = fetch_from(store, Cursor::default()).await.cursor;
        let (mut writer, mut gate) = (fixture.connection().await, fixture.connection().await);
        run(&mut writer, &format!("BEGIN; {}", account_insert("a", "1"))).await;
        run(&mut gate, "BEGIN; LOCK TABLE pg_catalog.pg_locks IN ACCESS EXCLUSIVE MODE").await;
        let commits = async {
            fixture.until(WAITS, 1).await;
            run(&mut writer, "COMMIT").await;
            run(&mut gate, "COMMIT").await;
        };
        let (first, ()) = tokio::join!(fetch_from(store, cursor), commits);
        let mut rows = first.rows.len();
        let mut cursor = first.cursor;
        for _ in 0..3 {
            let fetched = fetch_from(store, cursor).await;
            rows += fetched.rows.len();
            cursor = fetched.cursor;
        }
        assert_eq!(rows, 1, "the row is answered, at once or later, and once");
    }
}

/// PBX-011: who waits for the lock of membership sees what its holder changed.
#[tokio::test(flavor = "multi_thread")]
async fn membership_sees_what_was_committed_while_it_waited() {
    for strict in Strict::all().await {
        let (fixture, store) = (&strict.fixture, &strict.store);
        let mut other = fixture.connection().await;
        let lock =
            "SELECT pg_advisory_xact_lock(1886153839::bigint << 32 | 'outbox_node'::regclass::oid::bigint)";
        run(&mut other, &format!("BEGIN; {lock}")).await;
        let changes = async {
            fixture.until(WAITS, 1).await;
            run(&mut other, "UPDATE outbox_slot SET slot = slot; COMMIT").await;
        };
        let (joined, ()) = tokio::join!(store.register(register(1, Duration::from_secs(600))), changes);
        assert!(!joined.unwrap().held.is_empty());
    }
}

/// PBX-035: a caller's own transaction keeps the isolation that the caller has set.
#[tokio::test(flavor = "multi_thread")]
async fn the_callers_transactions_keep_their_isolation() {
    use pillarbox::port::Begin;
    use pillarbox_postgres::sqlx::{Row, query};

    let strict = match Strict::direct(STRICT[0]).await {
        Ok(strict) => strict,
        Err(reason) => return could_not_run("pillarbox-postgres under a strict isolation", &reason),
    };
    let mut tx = strict.store.begin().await.unwrap();
    let shown = query("SHOW transaction_isolation").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(shown.get::<String, _>(0), "repeatable read");
}
