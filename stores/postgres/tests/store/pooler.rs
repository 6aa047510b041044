//! Poolers: behind one that hands out server connections per transaction, everything works but listening.

use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::model::Event;
use pillarbox::port::Admin;
use pillarbox_postgres::PostgresStore;
use pillarbox_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::query;

use crate::bouncer::{Bouncer, Next};
use crate::kit::{ACCOUNT, Fixture, ORDER_PLACED, Seen, could_not_run};
use crate::server::Server;

const SOON: Duration = Duration::from_millis(50);
const EVENTS: usize = 60;
/// What the log of a server behind a pooler must not have: `sqlx_s_1` would be a statement that is kept.
const WRONG: [&str; 4] = ["ERROR:", "WARNING:", "LISTEN", "execute sqlx_s_"];
/// Who listens, by the server's own list: a LISTEN behind a pooler would stay with the server connection.
const LISTENS: &str = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";

/// A server whose log tells every statement, and a pooler before it.
fn servers(next: Next) -> Option<(Server, Bouncer)> {
    let server = Server::new(&["log_statement=all", "log_line_prefix=%a|"]);
    let both = server.and_then(|server| Bouncer::new(&server, next).map(|bouncer| (server, bouncer)));
    both.map_err(|reason| could_not_run("pillarbox-postgres behind a pooler", &reason)).ok()
}

/// A user's pool. The pooler is told to let `extra_float_digits` pass, which sqlx sets.
fn pool(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(8).connect_lazy_with(url.parse().unwrap())
}

/// Writes with a statement of the user's own. sqlx names and keeps statements, whatever the size of its cache, unless
/// the statement says otherwise; and what is not kept must be prepared and run in one transaction.
async fn write(outbox: &Outbox<PostgresStore>, number: usize) {
    let mut tx = outbox.begin().await.unwrap();
    let order = query("INSERT INTO orders (id) VALUES ($1)").persistent(false).bind(number as i64);
    order.execute(tx.conn()).await.unwrap();
    let (id, group) = (number.to_string(), (number % 7).to_string());
    tx.write(Event::text(ORDER_PLACED, "{}").id(id).aggregate(ACCOUNT, group)).unwrap();
    tx.commit().await.unwrap();
}

/// Two processes write and deliver; then the log of the server is read.
async fn deliver(
    server: &Server,
    bouncer: &Bouncer,
    start: fn(PostgresStore) -> pillarbox::events::OutboxBuilder<PostgresStore>,
) {
    let direct = Fixture::at(&server.url()).await;
    direct.execute("CREATE TABLE public.orders (id bigint PRIMARY KEY)").await;
    let store = PostgresStore::new(pool(&bouncer.url()));
    store.migrate().await.unwrap();
    let seen = Seen::new();
    let outbox = seen.hear(start(store)).poll_interval(SOON).start().await.unwrap();
    let writer = Outbox::writer_only(PostgresStore::new(pool(&bouncer.url()))).start().await.unwrap();
    for number in (0..EVENTS).step_by(2) {
        tokio::join!(write(&outbox, number), write(&writer, number + 1));
    }
    let mut ids = seen.wait(EVENTS).await;
    assert_eq!(direct.number(LISTENS).await, 0);
    outbox.close().await;
    writer.close().await;
    let expected: Vec<String> = (0..EVENTS).map(|number| number.to_string()).collect();
    ids.sort_by_key(|id| id.parse::<usize>().unwrap());
    assert_eq!(ids, expected);
    assert_eq!(direct.number("SELECT count(*) FROM public.outbox_event WHERE status <> 1").await, 0);
    let log = server.log();
    let ours = log.lines().filter(|line| !line.starts_with("beside|"));
    let wrong = |line: &&str| WRONG.iter().any(|bad| line.contains(bad));
    let wrong: Vec<&str> = ours.filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// PBX-011, PBX-016: one node, behind a pooler that it found by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_works_behind_a_transaction_pooler() {
    let Some((server, bouncer)) = servers(Next::Last) else { return };
    deliver(&server, &bouncer, Outbox::single_node).await;
}

/// PBX-010, PBX-011: leases, slots and groups too.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_node_works_behind_a_transaction_pooler() {
    let Some((server, bouncer)) = servers(Next::RoundRobin) else { return };
    deliver(&server, &bouncer, Outbox::ordered).await;
}

/// PBX-016: without a pooler nobody takes the store's word that there is one: it listens.
#[tokio::test(flavor = "multi_thread")]
async fn no_pooler_is_found_where_there_is_none() {
    let Some(fixture) = Fixture::new().await else { return };
    let store = PostgresStore::new(fixture.pool.clone());
    store.migrate().await.unwrap();
    let outbox = Seen::new().hear(Outbox::ordered(store)).start().await.unwrap();
    let ours = format!("{LISTENS} AND application_name = '{}'", fixture.schema);
    fixture.until(&ours, 1).await;
    outbox.close().await;
}
