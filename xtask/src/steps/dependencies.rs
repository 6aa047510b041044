//! The step that checks dependencies: by `deny.toml`, and which crates, and how many, each package builds.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Course, StepResult};
use crate::{process, supply};

/// Crates and the dependencies that they must not have: other databases, release candidates, slow C
/// libraries.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("pillarbox", &["sqlx-core", "rustls", "ring"]),
    ("pillarbox-postgres", &["sqlx-mysql", "sqlx-sqlite", "rsa", "aws-lc-sys", "ring", "rustls"]),
    ("pillarbox-mysql", &["sqlx-postgres", "sqlx-sqlite", "rsa", "aws-lc-sys", "ring", "rustls"]),
    ("pillarbox-cli", &["aws-lc-sys", "native-tls", "openssl-sys", "rsa"]),
];

/// Crates and their maximum number of dependencies. The demo is the first thing that a new user builds.
const LIMITS: [(&str, usize); 1] = [("pillarbox-demo", 150)];

pub(super) fn run(course: &mut Course<'_>) -> StepResult {
    let mut findings = match supply::findings(course.root) {
        Ok(findings) => findings,
        Err(error) => return StepResult::Failed(error.to_string()),
    };
    for (package, forbidden) in FORBIDDEN {
        match tree(course.root, package) {
            Ok(crates) => findings.extend(forbidden_in(package, &crates, forbidden)),
            Err(why) => return StepResult::Failed(why),
        }
    }
    for (package, limit) in LIMITS {
        match tree(course.root, package) {
            Ok(crates) if crates.len() > limit => {
                findings.push(format!("{package} consists of {} crates, more than {limit}", crates.len()));
            }
            Ok(crates) => println!("{package} consists of {} crates", crates.len()),
            Err(why) => return StepResult::Failed(why),
        }
    }
    if findings.is_empty() { StepResult::Passed } else { StepResult::Failed(findings.join("; ")) }
}

fn forbidden_in<'a>(
    package: &'a str,
    crates: &'a BTreeSet<String>,
    forbidden: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    let found = forbidden.iter().filter(|name| crates.iter().any(|line| is_named(line, name)));
    found.map(move |name| {
        format!("{package} depends on {name}: see `cargo tree -p {package} -e no-dev -i {name}`")
    })
}

/// Whether a line such as `sqlx-core v0.9.0` is about this crate.
fn is_named(line: &str, name: &str) -> bool {
    line.split(' ').next() == Some(name)
}

/// The crates that a package depends on with default features, without those of its tests.
fn tree(root: &Path, package: &str) -> Result<BTreeSet<String>, String> {
    let mut command = process::cargo(root);
    command.args(["tree", "--locked", "--package", package, "--edges", "no-dev", "--prefix", "none"]);
    let listed = process::answer(&mut command).map_err(|why| format!("`cargo tree -p {package}`: {why}"))?;
    Ok(listed.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_must_not_be_there_is_named_with_the_command_that_shows_why() {
        let crates = ["sqlx-core v0.9.0", "rsa v0.10.0"].map(String::from).into();
        let found: Vec<_> = forbidden_in("pillarbox-postgres", &crates, &["sqlx-mysql", "rsa"]).collect();
        let why =
            "pillarbox-postgres depends on rsa: see `cargo tree -p pillarbox-postgres -e no-dev -i rsa`";
        assert_eq!(found, [why]);
        assert!(!is_named("sqlx-core v0.9.0", "sqlx"));
    }
}
