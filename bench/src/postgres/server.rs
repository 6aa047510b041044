//! What the server has spent: processor time of its processes, bytes of its log, versions of rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use pillarbox_postgres::sqlx::postgres::PgPool;
use pillarbox_postgres::sqlx::query_scalar;

/// Linux counts in hundredths of a second, whatever the kernel's own clock.
const TICK: Duration = Duration::from_millis(10);

/// A server on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server {
    postmaster: i32,
}

impl Server {
    /// Found by the parent of a backend.
    pub(crate) async fn find(pool: &PgPool) -> anyhow::Result<Self> {
        let backend: i32 = query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await?;
        let postmaster = Process::read(backend)
            .ok_or_else(|| anyhow::anyhow!("the server's processes are not on this machine"))?
            .parent;
        Ok(Self { postmaster })
    }

    /// The processor time of all its processes so far: those that run, and those that have ended.
    pub(crate) fn cpu(self) -> anyhow::Result<Duration> {
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

    /// The processor time of each of its processes that runs, to the nanosecond.
    pub(crate) fn processes(self) -> anyhow::Result<Times> {
        let mut times = Times::default();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let is_ours = Process::read(id).is_some_and(|process| process.parent == self.postmaster);
            if let Some(time) = scheduled(&entry.path()).filter(|_| is_ours) {
                times.0.insert(id, time);
            }
        }
        Ok(times)
    }
}

/// Processor time by the number of a process or thread.
#[derive(Debug, Default)]
pub(crate) struct Times(BTreeMap<i32, Duration>);

impl Times {
    /// The threads of a process that run.
    pub(crate) fn of_threads(process: u32) -> anyhow::Result<Self> {
        let mut times = Self::default();
        for entry in fs::read_dir(format!("/proc/{process}/task"))? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Some(id), Some(time)) = (id, scheduled(&entry.path())) {
                times.0.insert(id, time);
            }
        }
        Ok(times)
    }

    /// Leaves a process out.
    pub(crate) fn without(mut self, process: i32) -> Self {
        self.0.remove(&process);
        self
    }

    /// What was spent since an earlier look. What ended meanwhile is not counted.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let before = |id| earlier.0.get(id).copied().unwrap_or_default();
        self.0.iter().map(|(id, time)| time.saturating_sub(before(id))).sum()
    }
}

fn scheduled(folder: &Path) -> Option<Duration> {
    let stat = fs::read_to_string(folder.join("schedstat")).ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
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
pub(crate) async fn backends_cpu(pool: &PgPool, application: &str) -> anyhow::Result<Duration> {
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
pub(crate) async fn wal(pool: &PgPool) -> anyhow::Result<i64> {
    Ok(query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetch_one(pool).await?)
}

/// Versions of rows that were left behind in a schema so far. Backends tell when they end: close them first.
pub(crate) async fn dead_rows(pool: &PgPool, schema: &str) -> anyhow::Result<i64> {
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

    #[test]
    fn what_began_or_ended_between_two_looks_is_no_loss() {
        let times = |pairs: &[(i32, u64)]| {
            Times(pairs.iter().map(|(id, micros)| (*id, Duration::from_micros(*micros))).collect())
        };
        let (earlier, later) = (times(&[(1, 10), (2, 50)]), times(&[(1, 15), (3, 7)]));
        assert_eq!(later.since(&earlier), Duration::from_micros(12));
        assert_eq!(later.without(3).since(&earlier), Duration::from_micros(5));
    }
}
