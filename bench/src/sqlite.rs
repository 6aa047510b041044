//! The SQLite store beside bare rusqlite doing the same statements with the same durability.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pillarbox::model::{NewRow, Placement};
use pillarbox::port::{OnDone, Table, Write};
use pillarbox::{Event, Failure, Outbox};
use pillarbox_sqlite::SqliteStore;
use rusqlite::{Connection, params};
use tokio::sync::Notify;

const PAYLOAD_BYTES: usize = 300;
/// Outcomes in one transaction of the floor: what the engine settles at once at most.
const SETTLE_ROWS: usize = 1_000;

fn payload() -> String {
    format!("{{\"filler\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 13))
}

/// Counts deliveries and tells when all are in.
#[derive(Default)]
struct Arrivals {
    count: AtomicUsize,
    all: Notify,
}

impl Arrivals {
    fn listener(
        self: &Arc<Self>,
        expected: usize,
    ) -> impl Fn(Event) -> std::future::Ready<Result<(), Failure>> + use<> {
        let arrivals = Arc::clone(self);
        move |_| {
            if arrivals.count.fetch_add(1, Ordering::Relaxed) + 1 == expected {
                arrivals.all.notify_one();
            }
            std::future::ready(Ok(()))
        }
    }
}

async fn open(path: &Path) -> anyhow::Result<SqliteStore> {
    let store = SqliteStore::open(path)?;
    store.admin().migrate().await?;
    Ok(store)
}

/// A business table and connection with the store's own durability.
fn bare(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection
        .execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, note TEXT NOT NULL)")?;
    Ok(connection)
}

/// Writes events one a transaction with a business row, delivers and settles them all.
pub async fn end_to_end(path: &Path, events: usize, writers: usize) -> anyhow::Result<Duration> {
    let store = open(path).await?;
    bare(path)?;
    let arrivals = Arc::new(Arrivals::default());
    let outbox = Outbox::single_node(store)
        .listener("Measured", arrivals.listener(events))
        .on_done(OnDone::Delete)
        .no_purge()
        .start()
        .await?;
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let outbox = outbox.clone();
        tasks.spawn(async move {
            for _ in 0..events / writers {
                outbox
                    .transaction(|tx| {
                        tx.prepare_cached("INSERT INTO orders (note) VALUES (?1)")?.execute(["a note"])?;
                        tx.write(Event::text("Measured", payload()))?;
                        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
                    })
                    .await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    arrivals.all.notified().await;
    outbox.close().await;
    Ok(began.elapsed())
}

/// The floor of [`end_to_end`]: the same statements on one bare connection.
pub fn bare_end_to_end(path: &Path, events: usize) -> anyhow::Result<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(open(path))?;
    let connection = bare(path)?;
    let began = Instant::now();
    let mut waiting = Vec::with_capacity(SETTLE_ROWS);
    for number in 0..events {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        connection.prepare_cached("INSERT INTO orders (note) VALUES (?1)")?.execute(["a note"])?;
        insert(&connection, number)?;
        waiting.push(connection.last_insert_rowid());
        connection.execute_batch("COMMIT")?;
        if waiting.len() == SETTLE_ROWS || number + 1 == events {
            settle(&connection, &mut waiting)?;
        }
    }
    Ok(began.elapsed())
}

fn insert(connection: &Connection, number: usize) -> anyhow::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, status, attempts, available_at, created_at, occurred_at)
             VALUES (?1, 'Measured', '__GLOBAL__', ?2, 0, 0, ?3, ?3, ?3)",
        )?
        .execute(params![format!("{number:026}"), payload(), 1_700_000_000_000_000_i64])?;
    Ok(())
}

/// Done marks need not survive a power loss, as in the store.
fn settle(connection: &Connection, seqs: &mut Vec<i64>) -> anyhow::Result<()> {
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut delete =
        connection.prepare_cached("DELETE FROM outbox_event WHERE seq = ?1 AND status IN (0, 2)")?;
    for seq in seqs.drain(..) {
        delete.execute([seq])?;
    }
    drop(delete);
    connection.execute_batch("COMMIT")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(())
}

/// Fills a table with waiting events.
pub async fn fill(path: &Path, events: usize) -> anyhow::Result<()> {
    let store = open(path).await?;
    for _ in 0..events / SETTLE_ROWS {
        let event = || Event::text("Measured", payload()).build();
        let rows =
            (0..SETTLE_ROWS).map(|_| event().map(|event| NewRow { event, placement: Placement::Slot }));
        store.write(Write { rows: rows.collect::<Result<_, _>>()?, now: None }).await?;
    }
    Ok(())
}

/// Delivers and settles what waits.
pub async fn drain(path: &Path, events: usize) -> anyhow::Result<Duration> {
    let store = open(path).await?;
    let arrivals = Arc::new(Arrivals::default());
    let began = Instant::now();
    let outbox = Outbox::single_node(store)
        .listener("Measured", arrivals.listener(events))
        .on_done(OnDone::Delete)
        .no_purge()
        .start()
        .await?;
    arrivals.all.notified().await;
    outbox.close().await;
    Ok(began.elapsed())
}

/// The floor of [`drain`]: read in order, settle in batches, on one bare connection.
pub fn bare_drain(path: &Path, events: usize) -> anyhow::Result<Duration> {
    let connection = bare(path)?;
    let began = Instant::now();
    let (mut after, mut read) = (0, 0);
    while read < events {
        let mut select = connection.prepare_cached(
            "SELECT seq, event_id, event_type, aggregate_type, payload, attempts, created_at, available_at
             FROM outbox_event WHERE status IN (0, 2) AND seq > ?1 ORDER BY seq LIMIT ?2",
        )?;
        let mut rows = select.query(params![after, SETTLE_ROWS as i64])?;
        let mut seqs = Vec::with_capacity(SETTLE_ROWS);
        while let Some(row) = rows.next()? {
            after = row.get(0)?;
            let event: (String, String, String, String) =
                (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
            std::hint::black_box(event);
            seqs.push(after);
        }
        drop(rows);
        drop(select);
        anyhow::ensure!(!seqs.is_empty(), "the table ran out of rows");
        read += seqs.len();
        settle(&connection, &mut seqs)?;
    }
    Ok(began.elapsed())
}
