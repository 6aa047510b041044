//! Recovery: connections, servers and the right to write go away and come back, and the outbox goes on by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::kit::{ACCOUNT, Fixture, NEVER, ORDER_PLACED, Seen, could_not_run};
use crate::server::{Server, Stop};

/// Nobody is evicted meanwhile.
const LEASE: Duration = Duration::from_secs(600);
const LEFT: &str = "SELECT count(*) FROM outbox_event WHERE status <> 1 OR attempts > 0";

/// Writes one event after another to one group.
struct Writing {
    stop: Arc<AtomicBool>,
    failures: watch::Receiver<usize>,
    tasks: JoinSet<Vec<String>>,
}

impl Writing {
    fn start(outbox: &Arc<Outbox<PostgresStore>>) -> Self {
        let (stop, (sender, failures)) = (Arc::new(AtomicBool::new(false)), watch::channel(0));
        let mut tasks = JoinSet::new();
        let (outbox, stopped) = (Arc::clone(outbox), Arc::clone(&stop));
        tasks.spawn(async move {
            let mut confirmed = Vec::new();
            for number in 1.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("{number:06}");
                let Ok(mut tx) = outbox.begin().await else {
                    sender.send_modify(|count| *count += 1);
                    continue;
                };
                tx.write(Event::text(ORDER_PLACED, "{}").id(&*id).aggregate(ACCOUNT, "1")).unwrap();
                match tx.commit().await {
                    Ok(()) => confirmed.push(id),
                    Err(_) => sender.send_modify(|count| *count += 1),
                }
            }
            confirmed
        });
        Self { stop, failures, tasks }
    }

    async fn fails(&mut self, times: usize) {
        let before = *self.failures.borrow();
        let failing = self.failures.wait_for(|count| *count >= before + times);
        timeout(NEVER, failing).await.unwrap().unwrap();
    }

    async fn end(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        timeout(NEVER, self.tasks.join_next()).await.unwrap().unwrap().unwrap()
    }
}

async fn more(seen: &Seen, count: usize) {
    seen.wait(seen.ids().len() + count).await;
}

/// Everything that was confirmed came, in order, and once.
async fn judge(fixture: &Fixture, seen: &Seen, outbox: &Outbox<PostgresStore>, writing: Writing) {
    let confirmed = writing.end().await;
    seen.wait_for(&confirmed).await;
    outbox.close().await;
    let delivered = seen.ids();
    assert!(delivered.is_sorted_by(|one, next| one < next), "{delivered:?}");
    assert_eq!(fixture.number(LEFT).await, 0);
    assert_eq!(fixture.number("SELECT count(*) FROM outbox_event").await, delivered.len() as i64);
}

async fn start(fixture: &Fixture, seen: &Seen) -> (Arc<Outbox<PostgresStore>>, Writing) {
    let outbox = seen.hear(Outbox::ordered(fixture.store().await)).lease(LEASE);
    let outbox = Arc::new(outbox.poll_interval(Duration::from_millis(100)).start().await.unwrap());
    let writing = Writing::start(&outbox);
    (outbox, writing)
}

/// PBX-010, PBX-024: every connection of the outbox is ended by the server, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn terminated_connections_cost_no_event_and_deliver_none_twice() {
    let Some(fixture) = Fixture::new().await else { return };
    let seen = Seen::new();
    let (outbox, writing) = start(&fixture, &seen).await;
    for _ in 0..10 {
        more(&seen, fastrand::usize(1..30)).await;
        fixture
            .execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = current_setting('search_path')",
            )
            .await;
    }
    more(&seen, 10).await;
    judge(&fixture, &seen, &outbox, writing).await;
}

/// PBX-010, PBX-024: the server is stopped in order and started again while the outbox runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_costs_no_event_and_delivers_none_twice() {
    let mut server = match Server::new(&[]) {
        Ok(server) => server,
        Err(reason) => return could_not_run("pillarbox-postgres", &reason),
    };
    let fixture = Fixture::at(&server.url()).await;
    let seen = Seen::new();
    let (outbox, writing) = start(&fixture, &seen).await;
    for _ in 0..2 {
        more(&seen, 30).await;
        server.stop(Stop::Fast);
        server.start().unwrap();
    }
    more(&seen, 30).await;
    judge(&fixture, &seen, &outbox, writing).await;
}

/// PBX-010: the server takes no writes for a while, as after a failover to a standby; no event dies of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_read_only_for_a_while_costs_no_event() {
    let server = match Server::new(&[]) {
        Ok(server) => server,
        Err(reason) => return could_not_run("pillarbox-postgres", &reason),
    };
    let fixture = Fixture::at(&server.url()).await;
    let seen = Seen::new();
    let (outbox, mut writing) = start(&fixture, &seen).await;
    more(&seen, 30).await;
    fixture.execute("ALTER SYSTEM SET default_transaction_read_only = on").await;
    fixture.execute("SELECT pg_reload_conf()").await;
    writing.fails(20).await;
    fixture.execute("ALTER SYSTEM RESET default_transaction_read_only").await;
    fixture.execute("SELECT pg_reload_conf()").await;
    more(&seen, 30).await;
    judge(&fixture, &seen, &outbox, writing).await;
}
