//! The floors: bare SQL over a lean table that reads on and deletes, or leases and deletes.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_postgres::sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use pillarbox_postgres::sqlx::{Connection, Row, query, raw_sql};

use tokio::task::JoinSet;

use super::protocol::{CONNECTIONS, Content, Handled, Load, NOTE, ORDER, Peer, payload, url};

/// Connections that lease. Each leases and deletes in turn.
const LEASING: usize = 2;
/// Rows of one read or lease.
const PAGE: i64 = 1_000;
/// The pause of a consumer that found nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// The primary key is the only index.
const TABLE: &str = "CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, \
    payload text NOT NULL, run_at timestamptz NOT NULL, locked_by text, locked_until timestamptz, \
    attempts integer NOT NULL DEFAULT 0)";
const FILL: &str =
    "INSERT INTO job (topic, payload, run_at) SELECT 'job', $1, now() FROM generate_series(1, $2)";
const ADD: &str = "INSERT INTO job (topic, payload, run_at) VALUES ('job', $1, now())";
const READ: &str = "SELECT id, topic, payload, attempts FROM job WHERE id > $1 ORDER BY id LIMIT $2";
const LEASE: &str = "UPDATE job SET locked_by = 'bare', locked_until = now() + interval '30 s', attempts = attempts + 1 \
    WHERE id = ANY (ARRAY(SELECT id FROM job WHERE run_at <= now() AND (locked_until IS NULL OR locked_until <= now()) \
        AND $1 >= 0 ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING id, topic, payload, attempts";
const DELETE: &str = "DELETE FROM job WHERE id = ANY($1)";

/// How jobs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One connection reads on by number.
    Read,
    /// Two connections lease.
    Lease,
}

/// A table of jobs and bare statements.
pub(super) struct Floor {
    way: Way,
    pool: PgPool,
    payload: String,
    connections: Vec<PgConnection>,
    /// The consumers. The process ends before they do.
    consuming: JoinSet<anyhow::Result<()>>,
}

impl Floor {
    pub(super) async fn open(way: Way) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
        let pool = pool.connect(&url()?).await?;
        Ok(Self { way, pool, payload: payload()?, connections: Vec::new(), consuming: JoinSet::new() })
    }
}

impl Peer for Floor {
    async fn migrate(&mut self) -> anyhow::Result<()> {
        raw_sql(TABLE).execute(&self.pool).await?;
        Ok(())
    }

    async fn fill(&mut self, jobs: usize) -> anyhow::Result<()> {
        query(FILL).bind(&self.payload).bind(i64::try_from(jobs)?).execute(&self.pool).await?;
        Ok(())
    }

    /// Neither leases nor deletions wait for the disk: the least that one can do.
    async fn connect(&mut self) -> anyhow::Result<()> {
        let connections = if self.way == Way::Read { 1 } else { LEASING };
        for _ in 0..connections {
            let mut connection = PgConnection::connect(&url()?).await?;
            query("SET synchronous_commit = off").execute(&mut connection).await?;
            self.connections.push(connection);
        }
        Ok(())
    }

    async fn start(&mut self, handled: Arc<Handled>, _: Load) -> anyhow::Result<()> {
        for connection in self.connections.drain(..) {
            self.consuming.spawn(consume(connection, self.way, Arc::clone(&handled)));
        }
        Ok(())
    }

    async fn transact(&self, account: i64, content: Content) -> anyhow::Result<()> {
        let mut tx = self.pool.begin().await?;
        if content.has_business() {
            query(ORDER).bind(account).bind(1_i64).bind(NOTE).execute(&mut *tx).await?;
        }
        if content.has_job() {
            query(ADD).bind(&self.payload).execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
    }
}

async fn consume(mut connection: PgConnection, way: Way, handled: Arc<Handled>) -> anyhow::Result<()> {
    let mut after = 0;
    loop {
        let take = if way == Way::Read { READ } else { LEASE };
        let rows = query(take).bind(after).bind(PAGE).fetch_all(&mut connection).await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let job: (String, String, i32) = (row.get(1), row.get(2), row.get(3));
            std::hint::black_box(job);
            handled.job();
            numbers.push(row.get::<i64, _>(0));
        }
        if numbers.is_empty() {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        if way == Way::Read {
            after = numbers.last().copied().unwrap_or(after);
        }
        query(DELETE).bind(numbers).execute(&mut connection).await?;
    }
}
