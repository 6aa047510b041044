//! The dependencies of the project: which are allowed, which have advisories, and a bill of materials.

mod advisories;
mod graph;
mod licence;
mod policy;
mod sbom;

use std::io;
use std::path::Path;

use graph::Graph;
use policy::Policy;

/// The file that says what the project may depend on.
const POLICY: &str = "deny.toml";

/// What is wrong with the dependencies by `deny.toml`; empty if nothing is.
pub(crate) fn findings(root: &Path) -> io::Result<Vec<String>> {
    let policy = Policy::parse(&std::fs::read_to_string(root.join(POLICY))?)?;
    let graph = Graph::load(root, &policy.targets, policy.features)?;
    println!("{} packages are checked by {POLICY}", graph.packages.len());
    Ok(policy.check(&graph))
}

/// Compares `Cargo.lock` with a checkout of the RustSec advisory database, and prints what it finds. Returns
/// whether nothing is found that `deny.toml` does not name.
pub(crate) fn advisories(root: &Path, database: &Path) -> io::Result<bool> {
    let policy = Policy::parse(&std::fs::read_to_string(root.join(POLICY))?)?;
    let locked = graph::locked(root)?;
    let known = advisories::read(database)?;
    let found = advisories::matching(&known, &locked);
    let (ignored, open): (Vec<_>, Vec<_>) = found.iter().partition(|hit| policy.ignores.contains(&hit.id));
    for hit in &ignored {
        println!("{hit} (named in {POLICY})");
    }
    for hit in &open {
        println!("{hit}");
    }
    println!(
        "{} packages, {} advisories: {} found, {} named in {POLICY}",
        locked.len(),
        known.len(),
        found.len(),
        ignored.len()
    );
    Ok(open.is_empty())
}

/// Prints the bill of materials of a package, in CycloneDX 1.5 as JSON.
pub(crate) fn sbom(root: &Path, package: &str) -> io::Result<bool> {
    let graph = Graph::load(root, &[], graph::Features::Default)?;
    let document = sbom::document(&graph, package, &graph::locked(root)?)?;
    println!("{document:#}");
    Ok(true)
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
