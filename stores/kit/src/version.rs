//! The version that tables record, and the versions that a release works with.

use pillarbox::model::TableName;
use pillarbox::port::ErrorKind;

use crate::Refused;

/// The newest schema version that this release knows. A version is raised only if older releases cannot work
/// with the tables; a release refuses versions that are newer than the one it knows.
pub const KNOWN: u32 = 2;

/// Declares the migrations of a store, in order, as the names of files in its folder `migrations`: the constants
/// `MIGRATIONS` and `NEWEST`, the version that this release creates. Each migration brings the tables to the
/// version of its position, and records that version.
#[macro_export]
macro_rules! migrations {
    ($($name:literal),+ $(,)?) => {
        pub(crate) const MIGRATIONS: &[&str] =
            &[$(include_str!(concat!("../migrations/", $name, ".sql"))),+];
        const NEWEST: u32 = MIGRATIONS.len() as u32;
    };
}

/// What the tables record about themselves; zeros if there are no tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaVersion {
    /// The version by which a release tells whether it knows these tables.
    pub version: u32,
    /// The last migration applied. Some migrations do not raise the version.
    pub step: u32,
}

impl SchemaVersion {
    /// The last migration applied, also for tables that are too old to record it.
    #[must_use]
    pub const fn applied(self) -> u32 {
        if self.version == 0 || self.step < self.version { self.version } else { self.step }
    }

    /// Refuses tables that lack a migration, or that belong to a newer release. `schema` is where they were
    /// looked for, on databases whose schemas the user may have to name.
    ///
    /// # Errors
    /// An error that tells what to do.
    pub fn check(self, newest: u32, schema: Option<&str>) -> Result<(), Refused> {
        refuse_newer(self.version, KNOWN)?;
        let within =
            schema.map(|name| format!(" in schema {name:?} (--schema names another)")).unwrap_or_default();
        let detail = match self.applied() {
            found if found >= newest => return Ok(()),
            0 => format!("the tables are missing{within}; run `pillarbox migrate`"),
            found => {
                format!("the tables are of version {found}, this needs {newest}; run `pillarbox migrate`")
            }
        };
        Err(Refused::new(ErrorKind::Schema, detail))
    }
}

/// Refuses tables of a newer release.
///
/// # Errors
/// An error that tells what to do.
pub fn refuse_newer(found: u32, known: u32) -> Result<(), Refused> {
    if found <= known {
        return Ok(());
    }
    let detail =
        format!("the tables are of version {found}, this knows versions up to {known}; use a newer release");
    Err(Refused::new(ErrorKind::Schema, detail))
}

/// Refuses a table of items that lacks columns.
///
/// # Errors
/// An error that names the missing columns.
pub fn refuse_lacking(table: &TableName, lacking: &[String]) -> Result<(), Refused> {
    if lacking.is_empty() {
        return Ok(());
    }
    let detail = format!("the table {} has no column {}", table.as_str(), lacking.join(", "));
    Err(Refused::new(ErrorKind::Schema, detail))
}

/// Refuses to work without the table of items.
#[must_use]
pub fn refuse_missing(table: &TableName) -> Refused {
    let table = table.as_str();
    let migrate = format!("pillarbox migrate --layout flowcatalyst --table {table}");
    Refused::new(ErrorKind::Schema, format!("the table {table} is missing; run `{migrate}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(version: u32, step: u32) -> Result<(), String> {
        SchemaVersion { version, step }.check(4, Some("shop")).map_err(|refused| refused.detail)
    }

    #[test]
    fn tables_are_checked_by_the_last_migration_and_by_the_version_that_releases_know() {
        assert_eq!(said(2, 4), Ok(()));
        assert_eq!(said(2, 5), Ok(()), "a later migration without a new version does no harm");
        assert!(said(0, 0).unwrap_err().contains("missing in schema \"shop\""));
        assert!(said(1, 0).unwrap_err().contains("version 1, this needs 4"));
        assert!(said(2, 3).unwrap_err().contains("version 3, this needs 4"));
        assert!(said(3, 9).unwrap_err().contains("newer release"));
    }
}
