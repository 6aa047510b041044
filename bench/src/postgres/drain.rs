//! A backlog, drained by the store and by bare SQL on one connection.

use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{Connection, Row, query, raw_sql};
use pillarbox_postgres::{PostgresStore, PostgresWakeUp};

use super::Sizes;
use super::fixture::Fixture;
pub(super) use crate::database::drain::{Ordered, drain, open};
use crate::database::{self, Database, Kind, Reader, Reads};
use crate::figure::{Figure, Goal};

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    database::drain::measure::<Fixture>(url, sizes.rounds, sizes.backlog, Goal::AtLeast(0.85)).await
}

impl Database for Fixture {
    type Store = PostgresStore;
    type Reader = Bare;

    const BARE: &'static str = "bare SQL";

    async fn fresh(url: &str) -> anyhow::Result<Self> {
        Self::new(url).await
    }

    async fn open_store(&self, connections: u32) -> anyhow::Result<PostgresStore> {
        self.store(connections, PostgresWakeUp::Notify).await
    }

    async fn close_store(store: &PostgresStore) {
        store.pool().close().await;
    }

    /// Done marks need not survive a crash, as in the store.
    async fn reader(&self, reads: Reads) -> anyhow::Result<Bare> {
        let mut connection = PgConnection::connect_with(self.options()).await?;
        query("SET synchronous_commit = off").execute(&mut connection).await?;
        Ok(Bare { connection, reads, after: 0, end: DELETE })
    }

    async fn keeper(&self) -> anyhow::Result<Option<Bare>> {
        let mut bare = self.reader(Reads::Onwards).await?;
        raw_sql(HISTORY).execute(&mut bare.connection).await?;
        Ok(Some(Bare { end: MOVE, ..bare }))
    }

    async fn add(&self, rows: usize, kind: Kind) -> anyhow::Result<()> {
        self.fill(rows, kind).await
    }

    async fn calmed(&self) -> anyhow::Result<()> {
        self.calm().await
    }

    async fn waiting(&self) -> anyhow::Result<usize> {
        self.pending().await
    }

    async fn drop_all(self) -> anyhow::Result<()> {
        self.remove().await
    }
}

const DELETE: &str = "DELETE FROM outbox_event WHERE seq = ANY($1) AND status IN (0, 2)";
/// The cheapest way to keep what is done that was found: one version of the row, two indexes, and no free space to look for.
const HISTORY: &str = "CREATE TABLE outbox_history (LIKE outbox_event); CREATE INDEX ON outbox_history (event_id); \
    CREATE INDEX ON outbox_history USING brin (done_at)";
const MOVE: &str = "WITH gone AS (DELETE FROM outbox_event WHERE seq = ANY($1) AND status IN (0, 2) RETURNING *) \
    INSERT INTO outbox_history SELECT * FROM gone";

/// One connection.
pub(super) struct Bare {
    connection: PgConnection,
    reads: Reads,
    after: i64,
    /// What is done to the rows of a page.
    end: &'static str,
}

impl Reader for Bare {
    async fn next(&mut self, rows: usize) -> anyhow::Result<usize> {
        let rows = query(
            "SELECT seq, event_id, event_type, aggregate_type, aggregate_id, message_group, headers, payload, attempts \
             FROM outbox_event WHERE status IN (0, 2) AND seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(self.after)
        .bind(i64::try_from(rows)?)
        .fetch_all(&mut self.connection)
        .await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let event: (String, String, Option<String>, String) =
                (row.get(1), row.get(2), row.get(5), row.get(7));
            std::hint::black_box(event);
            numbers.push(row.get::<i64, _>(0));
        }
        if let (Reads::Onwards, Some(last)) = (self.reads, numbers.last()) {
            self.after = *last;
        }
        let read = numbers.len();
        if read > 0 {
            query(self.end).bind(numbers).execute(&mut self.connection).await?;
        }
        Ok(read)
    }
}
