//! Reads the RustSec advisory database and finds the locked packages that it warns of.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

use semver::{Version, VersionReq};
use toml::{Table, Value};

use super::invalid;

/// The packages of the lock file, by name and version.
type Locked = BTreeMap<(String, String), Option<String>>;

/// An advisory: the package and the versions that it does not apply to.
#[derive(Debug)]
pub(super) struct Advisory {
    id: String,
    package: String,
    title: String,
    unaffected: Vec<VersionReq>,
}

/// A locked package that an advisory applies to.
#[derive(Debug, PartialEq)]
pub(super) struct Hit {
    pub(super) id: String,
    package: String,
    version: String,
    title: String,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}: {}", self.id, self.package, self.version, self.title)
    }
}

/// The advisories of a checkout of the database, without those that were withdrawn.
pub(super) fn read(database: &Path) -> io::Result<Vec<Advisory>> {
    let mut advisories = Vec::new();
    for folder in std::fs::read_dir(database.join("crates"))? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.display();
                let advisory = parse(&std::fs::read_to_string(&path)?);
                advisories.extend(advisory.ok_or_else(|| invalid(format!("{name} is no advisory")))?);
            }
        }
    }
    if advisories.is_empty() {
        return Err(invalid(format!("{} has no advisories", database.display())));
    }
    Ok(advisories)
}

/// Parses a file of the database; `Some(None)` if the advisory was withdrawn.
fn parse(text: &str) -> Option<Option<Advisory>> {
    let (front, rest) = text.strip_prefix("```toml\n")?.split_once("\n```")?;
    let front: Table = front.parse().ok()?;
    let advisory = front.get("advisory")?;
    if advisory.get("withdrawn").is_some() {
        return Some(None);
    }
    let text = |name: &str| advisory.get(name)?.as_str().map(str::to_owned);
    let title = rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
    let mut unaffected = Vec::new();
    for kind in ["patched", "unaffected"] {
        let list = front.get("versions").and_then(|versions| versions.get(kind)).and_then(Value::as_array);
        for range in list.into_iter().flatten() {
            unaffected.push(VersionReq::parse(range.as_str()?).ok()?);
        }
    }
    let (id, package) = (text("id")?, text("package")?);
    Some(Some(Advisory { id, package, title: title.to_owned(), unaffected }))
}

/// The locked packages that advisories apply to.
pub(super) fn matching(advisories: &[Advisory], locked: &Locked) -> Vec<Hit> {
    let mut hits = Vec::new();
    for ((name, version), _) in locked.iter().filter(|(_, checksum)| checksum.is_some()) {
        let Ok(parsed) = Version::parse(version) else { continue };
        let applies = |advisory: &&Advisory| {
            advisory.package == *name && !advisory.unaffected.iter().any(|range| covers(range, &parsed))
        };
        hits.extend(advisories.iter().filter(applies).map(|advisory| Hit {
            id: advisory.id.clone(),
            package: name.clone(),
            version: version.clone(),
            title: advisory.title.clone(),
        }));
    }
    hits
}

/// Whether a version is in a range. A pre-release is if both its release and the versions before that are:
/// that of the first repaired version may lack the repair, and one of a later version has it.
///
/// `VersionReq` alone matches no pre-release of another version than its own.
fn covers(range: &VersionReq, version: &Version) -> bool {
    if version.pre.is_empty() || range.matches(version) {
        return range.matches(version);
    }
    let before = match (version.major, version.minor, version.patch) {
        (0, 0, 0) => return false,
        (major, 0, 0) => Version::new(major - 1, u64::MAX, u64::MAX),
        (major, minor, 0) => Version::new(major, minor - 1, u64::MAX),
        (major, minor, patch) => Version::new(major, minor, patch - 1),
    };
    range.matches(&Version::new(version.major, version.minor, version.patch)) && range.matches(&before)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2024-0001\"\npackage = \"leaky\"\n\n[versions]\npatched = [\">= 1.2.3\"]\nunaffected = [\"< 1.0.0\"]\n```\n\n# It leaks\n\nText.\n";

    /// PBX-163
    #[test]
    fn only_affected_versions_of_downloaded_packages_are_found() {
        let advisory = parse(ADVISORY).unwrap().unwrap();
        let locked = |name: &str, version: &str, checksum: Option<&str>| {
            let locked = [((name.to_owned(), version.to_owned()), checksum.map(str::to_owned))];
            matching(std::slice::from_ref(&advisory), &locked.into()).len()
        };
        for version in ["1.0.0", "1.2.2", "1.2.3-rc.1", "1.0.0-rc.1", "1.1.0-rc.1"] {
            assert_eq!(locked("leaky", version, Some("c")), 1, "{version}");
        }
        for version in ["0.9.9", "0.9.9-rc.1", "1.2.3", "1.2.4-rc.1", "1.3.0-rc.1", "2.0.0", "2.0.0-rc.1"] {
            assert_eq!(locked("leaky", version, Some("c")), 0, "{version}");
        }
        assert_eq!(locked("other", "1.0.0", Some("c")), 0);
        assert_eq!(locked("leaky", "1.0.0", None), 0, "a package of the workspace");
        let withdrawn = ADVISORY.replace("[advisory]", "[advisory]\nwithdrawn = \"2024-02-01\"");
        assert!(parse(&withdrawn).unwrap().is_none());
        assert!(parse("# no front matter").is_none());
    }
}
