//! The queue beside bare SQL that leases and deletes jobs of a lean table.

use std::fs;
use std::time::Duration;

use pillarbox_mysql::sqlx::mysql::MySqlConnection;
use pillarbox_mysql::sqlx::{AssertSqlSafe, Connection, Executor, Row, query, raw_sql};

use super::fixture::Fixture;
use crate::database::queue::{Jobs, Leases, Spent};
use crate::database::{Database, Kind};

/// Linux counts in hundredths of a second, whatever the kernel's own clock.
const TICK: Duration = Duration::from_millis(10);

impl Jobs for Fixture {
    type Leases = BareLeases;

    async fn add_messages(&self, messages: usize) -> anyhow::Result<()> {
        self.add(messages, Kind::Queue).await?;
        self.calmed().await
    }

    async fn add_jobs(&self, jobs: usize) -> anyhow::Result<()> {
        self.fill_jobs(jobs).await
    }

    async fn leases(&self) -> anyhow::Result<BareLeases> {
        let mut connection = MySqlConnection::connect_with(self.options()).await?;
        // As the store's own connections: nothing between the rows is locked.
        raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut connection).await?;
        Ok(BareLeases(connection))
    }

    async fn spent(&self) -> anyhow::Result<Spent> {
        let row = self.admin().fetch_one("SELECT @@pid_file").await?;
        let process: i32 = fs::read_to_string(row.get::<String, _>(0))?.trim().parse()?;
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect::<Vec<_>>());
        let ticks = |place: usize| fields.as_ref()?.get(place)?.parse::<u32>().ok();
        let ticks = ticks(11).zip(ticks(12)).ok_or_else(|| anyhow::anyhow!("no processor time"))?;
        let row = self.admin().fetch_one("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'").await?;
        Ok(Spent { cpu: TICK * (ticks.0 + ticks.1), log: row.get::<String, _>(1).parse()? })
    }
}

/// One connection.
pub(crate) struct BareLeases(MySqlConnection);

impl Leases for BareLeases {
    async fn next(&mut self, jobs: usize) -> anyhow::Result<usize> {
        let mut tx = self.0.begin().await?;
        let rows = query(
            "SELECT id, topic, payload, attempts FROM job WHERE run_at <= utc_timestamp(6) \
             AND (locked_until IS NULL OR locked_until <= utc_timestamp(6)) ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED",
        )
        .bind(i64::try_from(jobs)?)
        .fetch_all(&mut *tx)
        .await?;
        let mut numbers = Vec::with_capacity(rows.len());
        for row in &rows {
            let job: (String, String, i32) = (row.get(1), row.get(2), row.get(3));
            std::hint::black_box(job);
            numbers.push(row.get::<i64, _>(0).to_string());
        }
        if numbers.is_empty() {
            return Ok(0);
        }
        let list = numbers.join(",");
        let lease = format!(
            "UPDATE job SET locked_by = 'bare', locked_until = utc_timestamp(6) + interval 30 second, \
             attempts = attempts + 1 WHERE id IN ({list})"
        );
        raw_sql(AssertSqlSafe(lease)).execute(&mut *tx).await?;
        tx.commit().await?;
        raw_sql(AssertSqlSafe(format!("DELETE FROM job WHERE id IN ({list})"))).execute(&mut self.0).await?;
        Ok(numbers.len())
    }
}
