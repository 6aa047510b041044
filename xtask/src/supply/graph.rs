//! Reads the packages and their dependencies from `cargo metadata` and `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde_json::Value;

use super::invalid;
use crate::process;

/// The features that are turned on in the packages of the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Features {
    #[default]
    Default,
    All,
}

/// A package of the graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) licence: Option<String>,
    /// Where it comes from; none for packages of the workspace.
    pub(super) source: Option<String>,
    /// The ids of the packages that it depends on, without those of its tests.
    pub(super) depends_on: Vec<String>,
}

/// All packages by the id that cargo gives them.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) packages: BTreeMap<String, Package>,
}

impl Graph {
    /// The graph for these targets together, or for all targets.
    pub(super) fn load(root: &Path, targets: &[String], features: Features) -> io::Result<Self> {
        let mut command = process::cargo(root);
        command.args(["metadata", "--format-version", "1", "--locked"]);
        if features == Features::All {
            command.arg("--all-features");
        }
        for target in targets {
            command.args(["--filter-platform", target]);
        }
        let text =
            process::answer(&mut command).map_err(|why| invalid(format!("`cargo metadata`: {why}")))?;
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let metadata: Value = serde_json::from_str(text)?;
        let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut packages = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            let found = Package {
                name: text(&package, "name").unwrap_or_default(),
                version: text(&package, "version").unwrap_or_default(),
                licence: text(&package, "license"),
                source: text(&package, "source"),
                depends_on: Vec::new(),
            };
            packages.insert(text(&package, "id").unwrap_or_default(), found);
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let is_built = |kind: &Value| kind["kind"].as_str() != Some("dev");
            let deps = list(&node["deps"]).into_iter();
            let deps = deps.filter(|dep| list(&dep["dep_kinds"]).iter().any(is_built));
            let deps = deps.filter_map(|dep| text(&dep, "pkg")).collect();
            if let Some(package) = text(&node, "id").and_then(|id| packages.get_mut(&id)) {
                package.depends_on = deps;
            }
        }
        Ok(Self { packages })
    }

    /// The id of a package of the workspace.
    pub(super) fn find(&self, name: &str) -> Option<&str> {
        let is_it = |package: &Package| package.name == name && package.source.is_none();
        self.packages.iter().find(|(_, package)| is_it(package)).map(|(id, _)| id.as_str())
    }

    /// A package and everything that it is built with.
    pub(super) fn closure<'g>(&'g self, id: &'g str) -> BTreeSet<&'g str> {
        let mut seen = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            if let Some(package) = self.packages.get(id)
                && seen.insert(id)
            {
                next.extend(package.depends_on.iter().map(String::as_str));
            }
        }
        seen
    }
}

/// The packages of `Cargo.lock` by name and version, with the checksum of each that was downloaded.
pub(super) fn locked(root: &Path) -> io::Result<BTreeMap<(String, String), Option<String>>> {
    let text = std::fs::read_to_string(root.join("Cargo.lock"))?;
    let lock: toml::Table = text.parse().map_err(|_| invalid("Cargo.lock can't be read"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    let entry = |package: &toml::Value| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")))
    };
    Ok(packages.into_iter().flatten().filter_map(entry).collect())
}
