//! What the server has spent: processor time of its processes, bytes of its log, versions of rows.

use std::fs;
use std::time::Duration;

use pillarbox_postgres::sqlx::postgres::PgPool;
use pillarbox_postgres::sqlx::query_scalar;

/// Linux counts in hundredths of a second, whatever the kernel's own clock.
const TICK: Duration = Duration::from_millis(10);

/// A server on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    postmaster: i32,
}

impl Server {
    /// Found by the parent of a backend.
    pub(super) async fn find(pool: &PgPool) -> anyhow::Result<Self> {
        let backend: i32 = query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await?;
        let postmaster = Process::read(backend)
            .ok_or_else(|| anyhow::anyhow!("the server's processes are not on this machine"))?
            .parent;
        Ok(Self { postmaster })
    }

    /// The processor time of all its processes so far: those that run, and those that have ended.
    pub(super) fn cpu(self) -> anyhow::Result<Duration> {
        let mut ticks = 0;
        for entry in fs::read_dir("/proc")? {
            let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            match Process::read(id) {
                // The postmaster waits for every process it started, and is told what it used.
                Some(process) if id == self.postmaster => ticks += process.own + process.ended,
                Some(process) if process.parent == self.postmaster => ticks += process.own,
                _ => {}
            }
        }
        Ok(TICK * ticks)
    }
}

/// One process, in ticks.
struct Process {
    parent: i32,
    own: u32,
    ended: u32,
}

impl Process {
    fn read(id: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// The name of a process is in brackets and may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u32>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own: number(11)? + number(12)?,
            ended: number(13)? + number(14)?,
        })
    }
}

/// The processor time of the backends with this application name, to the nanosecond.
pub(super) async fn backends_cpu(pool: &PgPool, application: &str) -> anyhow::Result<Duration> {
    let backends: Vec<i32> = query_scalar("SELECT pid FROM pg_stat_activity WHERE application_name = $1")
        .bind(application)
        .fetch_all(pool)
        .await?;
    let mut spent = Duration::ZERO;
    for backend in backends {
        let stat = fs::read_to_string(format!("/proc/{backend}/schedstat"))?;
        let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        spent += Duration::from_nanos(nanos.ok_or_else(|| anyhow::anyhow!("no scheduler statistics"))?);
    }
    Ok(spent)
}

/// Bytes of the log so far.
pub(super) async fn wal(pool: &PgPool) -> anyhow::Result<i64> {
    Ok(query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetch_one(pool).await?)
}

/// Versions of rows that were left behind in a schema so far. Backends tell when they end: close them first.
pub(super) async fn dead_rows(pool: &PgPool, schema: &str) -> anyhow::Result<i64> {
    let sql = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1";
    Ok(query_scalar(sql).bind(schema).fetch_one(pool).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a ) b) S 3 7 7 0 -1 4194560 1 2 0 0 11 12 13 14 20 0 1 0 5 6";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.parent, process.own, process.ended), (3, 23, 27));
    }
}
