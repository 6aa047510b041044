//! What tables say of their version, and which of them a release works with.

use pillarbox::model::TableName;
use pillarbox::port::ErrorKind;

use crate::Refused;

/// The newest version that an older release could not work with: it refuses what is beyond the one it knows.
pub const KNOWN: u32 = 2;

/// What the tables say of themselves; zeros where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchemaVersion {
    /// The version that releases look at to tell whether they know these tables.
    pub version: u32,
    /// The last migration that was made; some of them need no new version.
    pub step: u32,
}

impl SchemaVersion {
    /// The last migration that was made, also where the tables are older than the note of it.
    #[must_use]
    pub const fn applied(self) -> u32 {
        if self.version == 0 || self.step < self.version { self.version } else { self.step }
    }

    /// Refuses tables that lack a migration, or are of a newer release.
    ///
    /// # Errors
    /// What to do about it.
    pub fn check(self, newest: u32) -> Result<(), Refused> {
        refuse_newer(self.version, KNOWN)?;
        let detail = match self.applied() {
            found if found >= newest => return Ok(()),
            0 => "the tables are missing; run `pillarbox migrate`".to_owned(),
            found => {
                format!("the tables are of version {found}, this needs {newest}; run `pillarbox migrate`")
            }
        };
        Err(Refused::new(ErrorKind::Schema, detail))
    }
}

/// Refuses tables of a release that is newer.
///
/// # Errors
/// What to do about it.
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
/// Which ones.
pub fn refuse_lacking(table: &TableName, lacking: &[String]) -> Result<(), Refused> {
    if lacking.is_empty() {
        return Ok(());
    }
    let detail = format!("the table {} has no column {}", table.as_str(), lacking.join(", "));
    Err(Refused::new(ErrorKind::Schema, detail))
}

/// Refuses to work without a table of items.
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
        SchemaVersion { version, step }.check(4).map_err(|refused| refused.detail)
    }

    #[test]
    fn tables_are_checked_by_the_last_migration_and_by_the_version_that_releases_know() {
        assert_eq!(said(2, 4), Ok(()));
        assert_eq!(said(2, 5), Ok(()), "a later migration without a new version does no harm");
        assert!(said(0, 0).unwrap_err().contains("missing"));
        assert!(said(1, 0).unwrap_err().contains("version 1, this needs 4"));
        assert!(said(2, 3).unwrap_err().contains("version 3, this needs 4"));
        assert!(said(3, 9).unwrap_err().contains("newer release"));
    }
}
