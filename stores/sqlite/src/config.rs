//! The settings of a store, and opening it.

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

/// When a commit is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it is on the disk: it outlives a power cut.
    #[default]
    Full,
    /// When the operating system has it: it outlives the process, a power cut may take the last ones.
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

/// What may be done with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Reading and writing.
    #[default]
    ReadWrite,
    /// Looking only.
    ReadOnly,
}

/// What to do if the file is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// Make an empty one.
    #[default]
    Create,
    /// Fail with an error.
    Refuse,
}

/// How a store is opened.
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
            return Err(refuse("the URL has options after a question mark, which are not known"));
        }
        Ok(Self::new(Path::new(path)))
    }

    setters!(named_by: "file");

    /// When a commit is safe. Default: full.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long a commit is put off at most while transactions keep coming. One that is alone is never put off.
    /// Default: 10 ms.
    pub fn group_time(mut self, group_time: Duration) -> Self {
        self.group_time = group_time;
        self
    }

    /// How long to wait for another connection's lock. Default: 5 s; at most 10 minutes.
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.opening.busy_timeout = busy_timeout.min(LONGEST_BUSY_TIMEOUT);
        self
    }

    /// What may be done with the file. Default: everything.
    pub fn access(mut self, access: Access) -> Self {
        self.opening.access = access;
        self
    }

    /// What to do if the file is not there. Default: make an empty one.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.opening.missing = missing;
        self
    }

    /// The statements that make the native tables, for people who run them by hand.
    #[must_use]
    pub fn schema_sql(&self) -> String {
        migrate::script::<Native>(&self.sql::<Native>())
    }

    /// The statements that make a table of items and those beside it, for people who run them by hand.
    #[must_use]
    pub fn items_schema_sql(&self) -> String {
        migrate::script::<Items>(&self.sql::<Items>())
    }

    pub(crate) fn sql<K: Kind>(&self) -> Sql {
        Sql::new(&Names::new(&self.settings.table(K::LAYOUT), K::LAYOUT))
    }

    /// Opens the file with the native tables and starts the threads. The tables need not be there yet.
    pub fn open(self) -> Result<SqliteStore, StoreError> {
        self.start()
    }

    /// Opens the file with a table of items and starts the threads. The tables need not be there yet.
    pub fn open_items(self) -> Result<SqliteItemStore, StoreError> {
        self.start()
    }
}
