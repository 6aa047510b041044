//! The builder of a store: its settings, and opening it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pillarbox::port::{ErrorKind, Items, Native, StoreError};
use pillarbox_store_kit::{Settings, setters};

use crate::connection::Opening;
use crate::kind::Kind;
use crate::migrate;
use crate::sql::{Names, Sql};
use crate::store::{SqliteItemStore, SqliteStore};

const LONGEST_BUSY_TIMEOUT: Duration = Duration::from_secs(600);

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is on disk: it survives a power cut.
    #[default]
    Full,
    /// When the operating system has it: it survives a crash of the process, but a power cut may lose the
    /// latest commits.
    Normal,
}

impl Synchronous {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

/// How the file may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// For reading and writing.
    #[default]
    ReadWrite,
    /// For reading only; every change is refused.
    ReadOnly,
}

/// What to do if the file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Create an empty file.
    #[default]
    Create,
    /// Fail with an error.
    Refuse,
}

/// The settings of a store that is to be opened.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct SqliteStoreBuilder {
    pub(crate) path: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) synchronous: Synchronous,
    pub(crate) group_time: Duration,
    pub(crate) opening: Opening,
}

impl SqliteStoreBuilder {
    pub(crate) fn new(path: &Path) -> Self {
        let name = path.file_name().map_or_else(|| "sqlite".to_owned(), |n| n.to_string_lossy().into_owned());
        Self {
            path: path.to_owned(),
            settings: Settings::new(name),
            synchronous: Synchronous::default(),
            group_time: Duration::from_millis(10),
            opening: Opening {
                access: Access::default(),
                missing: Missing::default(),
                busy_timeout: Duration::from_secs(5),
            },
        }
    }

    pub(crate) fn from_url(url: &str) -> Result<Self, StoreError> {
        let refuse = |detail: &str| StoreError::new(ErrorKind::InvalidInput, "open", "sqlite", detail);
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        if !scheme.eq_ignore_ascii_case("sqlite") {
            return Err(refuse("the URL does not start with sqlite:"));
        }
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path == ":memory:" {
            return Err(refuse(
                "sqlite::memory: can't be used: the store needs several connections to one file",
            ));
        }
        if path.is_empty() {
            return Err(refuse("the URL names no file: write sqlite:FILE"));
        }
        if path.contains('?') {
            return Err(refuse("options after a question mark in the URL are not supported"));
        }
        Ok(Self::new(Path::new(path)))
    }

    setters!(named_by: "file");

    /// Sets when a commit counts as durable. Default: [`Synchronous::Full`].
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how long a commit may be delayed while further transactions keep arriving. A single transaction
    /// is never delayed. Default: 10 ms.
    pub fn group_time(mut self, group_time: Duration) -> Self {
        self.group_time = group_time;
        self
    }

    /// Sets how long to wait for a lock of another connection. Default: 5 s; at most 10 minutes.
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.opening.busy_timeout = busy_timeout.min(LONGEST_BUSY_TIMEOUT);
        self
    }

    /// Sets how the file may be used. Default: [`Access::ReadWrite`].
    pub fn access(mut self, access: Access) -> Self {
        self.opening.access = access;
        self
    }

    /// Sets what to do if the file does not exist. Default: [`Missing::Create`].
    pub fn missing(mut self, missing: Missing) -> Self {
        self.opening.missing = missing;
        self
    }

    /// The statements that create the native tables, to run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        migrate::script::<Native>(&self.sql::<Native>())
    }

    /// The statements that create a table of items and the tables beside it, to run them by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        migrate::script::<Items>(&self.sql::<Items>())
    }

    pub(crate) fn sql<K: Kind>(&self) -> Sql {
        Sql::new(&Names::new(&self.settings.table(K::LAYOUT), K::LAYOUT))
    }

    /// Opens the store over the native tables and starts its threads. The tables need not exist yet.
    pub fn open(self) -> Result<SqliteStore, StoreError> {
        self.start()
    }

    /// Opens the store over a table of items and starts its threads. The tables need not exist yet.
    pub fn open_items(self) -> Result<SqliteItemStore, StoreError> {
        self.start()
    }
}
