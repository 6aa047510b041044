//! The queue beside bare SQL that leases and deletes jobs of a lean table.

use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{Connection, Row, query};

use super::Sizes;
use super::fixture::Fixture;
use super::server::{Server, wal};
use crate::database::Kind;
use crate::database::queue::{self, Goals, Jobs, Leases, Spent};
use crate::figure::{Figure, Goal};

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let goals = Goals { drain: Goal::AtLeast(0.75), defaults: Goal::AtLeast(0.80), cpu: Goal::AtMost(28.0) };
    queue::measure::<Fixture>(url, sizes.rounds, sizes.backlog, goals).await
}

pub(super) async fn measure_latency(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    queue::measure_latency::<Fixture>(url, sizes.rounds, Goal::AtMost(500.0)).await
}

impl Jobs for Fixture {
    type Leases = Bare;

    async fn add_messages(&self, messages: usize) -> anyhow::Result<()> {
        self.fill(messages, Kind::Queue).await?;
        self.vacuum().await
    }

    async fn add_jobs(&self, jobs: usize) -> anyhow::Result<()> {
        self.fill_jobs(jobs).await
    }

    /// Neither leases nor deletions wait for the disk: the least that one can do.
    async fn leases(&self) -> anyhow::Result<Bare> {
        let mut connection = PgConnection::connect_with(self.options()).await?;
        query("SET synchronous_commit = off").execute(&mut connection).await?;
        Ok(Bare(connection))
    }

    async fn spent(&self) -> anyhow::Result<Spent> {
        let cpu = Server::find(self.admin()).await?.cpu()?;
        Ok(Spent { cpu, log: wal(self.admin()).await? })
    }
}

/// One connection.
pub(super) struct Bare(PgConnection);

impl Leases for Bare {
    async fn next(&mut self, jobs: usize) -> anyhow::Result<usize> {
        let rows = query(
            "UPDATE job SET locked_by = 'bare', locked_until = now() + interval '30 s', attempts = attempts + 1 \
             WHERE id = ANY (ARRAY(SELECT id FROM job WHERE run_at <= now() \
                 AND (locked_until IS NULL OR locked_until <= now()) ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)) \
             RETURNING id, topic, payload, attempts",
        )
        .bind(i64::try_from(jobs)?)
        .fetch_all(&mut self.0)
        .await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let job: (String, String, i32) = (row.get(1), row.get(2), row.get(3));
            std::hint::black_box(job);
            numbers.push(row.get::<i64, _>(0));
        }
        if !numbers.is_empty() {
            query("DELETE FROM job WHERE id = ANY($1)").bind(&numbers).execute(&mut self.0).await?;
        }
        Ok(numbers.len())
    }
}
