//! The stores whose processes are killed: one line each.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use pillarbox::port::Store;

use crate::plan::Plan;

#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "mysql")]
mod mariadb_server;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// Something that comes later.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Every store that several processes can share.
pub(crate) fn all() -> Vec<Arc<dyn Ground>> {
    vec![
        #[cfg(feature = "mysql")]
        Arc::new(mariadb::Mariadb),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb::Mongodb::One),
        #[cfg(feature = "mongodb")]
        Arc::new(mongodb::Mongodb::Three),
        #[cfg(feature = "postgres")]
        Arc::new(postgres::Postgres),
        #[cfg(feature = "sqlite")]
        Arc::new(sqlite::Sqlite),
    ]
}

/// Databases of one kind of store, with the business tables beside the outbox.
pub(crate) trait Ground: Send + Sync {
    /// The store's name.
    fn name(&self) -> &'static str;

    /// Whether a database has a server of its own.
    fn has_server(&self) -> bool {
        false
    }

    /// Whether a process of its server can be killed alone.
    fn has_backends(&self) -> bool {
        false
    }

    /// Whether it can have a server that loses commits in a crash.
    fn can_forget(&self) -> bool {
        false
    }

    /// Whether it also stands for its kind where servers are left alone.
    fn is_spared(&self) -> bool {
        true
    }

    /// How many processes are killed while its server is restarted three times.
    fn kills(&self) -> usize {
        30
    }

    /// A new database with all tables. An error says why this store can't run here.
    fn fresh(&self, commits: Commits) -> Later<'_, Result<Site, String>>;

    /// The business rows: every event that was committed.
    fn parcels<'a>(&'a self, url: &'a str) -> Later<'a, Result<Parcels, String>>;

    /// A running outbox, for a worker.
    fn open<'a>(&'a self, plan: &'a Plan) -> Later<'a, Result<Box<dyn Desk>, String>>;
}

/// What becomes of commits that were confirmed shortly before a crash of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commits {
    /// They are on disk.
    Kept,
    /// The server had not written them yet: they are lost, all from some moment on.
    TakenBack,
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// In order: whatever it said is committed stays.
    Fast,
    /// As in a crash, but it tells its clients.
    Immediate,
    /// The server is killed by SIGKILL.
    Kill,
    /// One of its processes is killed, and it recovers by itself.
    Backend,
}

/// A server that a case may end and start again.
pub(crate) trait Restart: Send + Sync {
    /// Ends it and starts it again on its old data. `down` is called while it is down, or right after its processes were.
    fn restart(&self, how: Stop, down: &mut dyn FnMut()) -> Result<(), String>;
}

/// A database.
pub(crate) struct Site {
    /// How processes find it.
    pub(crate) url: String,
    /// The outbox in it.
    pub(crate) store: Arc<dyn Store>,
    /// The server of it, where there is one that is the case's own.
    pub(crate) server: Option<Arc<dyn Restart>>,
    /// What must live as long as it.
    pub(crate) _guard: Box<dyn Any + Send>,
}

/// The group and number of each event, by its id.
pub(crate) type Parcels = BTreeMap<String, (u32, u32)>;

/// How a transaction is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Commit,
    Rollback,
}

/// How a transaction ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// These ids are committed.
    Committed(Vec<String>),
    /// These are not, as was asked for.
    RolledBack(Vec<String>),
    /// Nothing happened: another transaction has the group, and this database does not wait for that one to end.
    GroupTaken,
}

/// Writes business rows with their events.
pub(crate) trait Desk: Send + Sync {
    /// In one transaction: so many times, draws the group's next number, and writes the row and the event of it.
    fn write(&self, group: u32, count: u32, ending: Ending) -> Later<'_, Result<Ended, String>>;

    /// Closes the outbox.
    fn close(&self) -> Later<'_, ()>;
}
