//! SQLite: a file in a folder of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::Outbox;
use pillarbox::events::WriteError;
use pillarbox::port::{Admin, TransactError};
use pillarbox_sqlite::rusqlite::{self, Connection};
use pillarbox_sqlite::{SqliteStore, Synchronous};

use super::{Commits, Desk, Ended, Ending, Ground, Later, Parcels, Site};
use crate::plan::{Plan, event};

const TABLES: &str = "\
create table counter (grp integer primary key, number integer not null) without rowid;
create table parcel (id text primary key, grp integer not null, number integer not null) without rowid;";
/// Where there is a file system in memory: a disk that is slow to flush would evict processes that nobody harms.
const MEMORY: &str = "/dev/shm";
const NEXT: &str = "insert into counter (grp, number) values (?1, 1) \
                    on conflict (grp) do update set number = number + 1 returning number";
const PARCEL: &str = "insert into parcel (id, grp, number) values (?1, ?2, ?3)";

pub(crate) struct Sqlite;

impl Ground for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn fresh(&self, _: Commits) -> Later<'_, Result<Site, String>> {
        Box::pin(async {
            let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).map_err(text)?;
            let url = format!("sqlite:{}", folder.path().join("outbox.db").display());
            let store = open(&url)?;
            store.migrate().await.map_err(text)?;
            connect(&url)?.execute_batch(TABLES).map_err(text)?;
            Ok(Site { url, store: Arc::new(store), server: None, _guard: Box::new(folder) })
        })
    }

    fn parcels<'a>(&'a self, url: &'a str) -> Later<'a, Result<Parcels, String>> {
        Box::pin(async move {
            let connection = connect(url)?;
            let mut rows = connection.prepare("select id, grp, number from parcel").map_err(text)?;
            let rows =
                rows.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).map_err(text)?;
            rows.collect::<Result<_, _>>().map_err(text)
        })
    }

    fn open<'a>(&'a self, plan: &'a Plan) -> Later<'a, Result<Box<dyn Desk>, String>> {
        Box::pin(async {
            let outbox = plan.outbox(open(&plan.url)?).start().await.map_err(text)?;
            Ok(Box::new(Till { outbox, label: plan.label.clone() }) as Box<dyn Desk>)
        })
    }
}

/// A killed process takes no power with it, so commits need not reach the disk. One that is stopped while it holds
/// the write lock is told from one that does not by this patience.
fn open(url: &str) -> Result<SqliteStore, String> {
    let builder = SqliteStore::builder_from_url(url).map_err(text)?;
    builder.synchronous(Synchronous::Normal).busy_timeout(Duration::from_secs(1)).open().map_err(text)
}

fn connect(url: &str) -> Result<Connection, String> {
    Connection::open(url.trim_start_matches("sqlite:")).map_err(text)
}

fn text(error: impl std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

struct Till {
    outbox: Outbox<SqliteStore>,
    label: String,
}

#[derive(Debug, thiserror::Error)]
enum NotWritten {
    #[error("rolled back on purpose")]
    OnPurpose,
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Desk for Till {
    fn write(&self, group: u32, count: u32, ending: Ending) -> Later<'_, Result<Ended, String>> {
        let ids = Arc::new(Mutex::new(Vec::new()));
        let (written, label) = (Arc::clone(&ids), self.label.clone());
        let transaction = self.outbox.transaction(move |tx| {
            for _ in 0..count {
                let number: u32 = tx.prepare_cached(NEXT)?.query_row([group], |row| row.get(0))?;
                let id = tx.write(event(group, number, &label))?.map(|id| id.to_string()).unwrap_or_default();
                tx.prepare_cached(PARCEL)?.execute((&id, group, number))?;
                written.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
            if ending == Ending::Rollback { Err(NotWritten::OnPurpose) } else { Ok(()) }
        });
        Box::pin(async move {
            let ended = transaction.await;
            let ids = std::mem::take(&mut *ids.lock().unwrap_or_else(PoisonError::into_inner));
            match ended {
                Ok(()) => Ok(Ended::Committed(ids)),
                Err(TransactError::Body(NotWritten::OnPurpose)) => Ok(Ended::RolledBack(ids)),
                Err(TransactError::Body(error)) => Err(text(error)),
                Err(error) => Err(text(error)),
            }
        })
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(self.outbox.close())
    }
}
