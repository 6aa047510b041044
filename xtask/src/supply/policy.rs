//! What `deny.toml` allows, and what a graph has against it. Keys mean what they mean to cargo-deny.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use toml::{Table, Value};

use super::graph::{Features, Graph, Package};
use super::{invalid, licence};

/// The keys that are read here. Any other would be ignored without a word, so it is refused.
const KNOWN: [(&str, &[&str]); 5] = [
    ("graph", &["targets", "all-features"]),
    ("licenses", &["allow"]),
    ("bans", &["multiple-versions", "deny", "skip"]),
    ("sources", &["unknown-registry", "unknown-git"]),
    ("advisories", &["ignore"]),
];
/// Where the packages of the default registry come from.
const DEFAULT_REGISTRY: &str = "registry+https://github.com/rust-lang/";

/// The rules of `deny.toml`.
#[derive(Debug, Default)]
pub(super) struct Policy {
    pub(super) targets: Vec<String>,
    pub(super) features: Features,
    licences: Vec<String>,
    /// Banned packages, with those that may depend on them all the same.
    bans: BTreeMap<String, Vec<String>>,
    /// Packages that may have several versions.
    skips: BTreeSet<String>,
    /// Ids of advisories that are known and accepted.
    pub(super) ignores: BTreeSet<String>,
}

impl Policy {
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let rules: Table = text.parse().map_err(|error| invalid(format!("deny.toml: {error}")))?;
        refuse_unknown(&rules)?;
        let at = |section: &str, key: &str| rules.get(section).and_then(|section| section.get(key));
        for (section, key) in
            [("sources", "unknown-registry"), ("sources", "unknown-git"), ("bans", "multiple-versions")]
        {
            if at(section, key).and_then(Value::as_str) != Some("deny") {
                return Err(invalid(format!("deny.toml: [{section}] {key} is not \"deny\"")));
            }
        }
        let list = |section, key| at(section, key).and_then(Value::as_array).cloned().unwrap_or_default();
        let texts = |list: &[Value]| list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let named = |section, key, name: &str| -> Vec<(String, Value)> {
            let entry = |entry: Value| Some((entry.get(name)?.as_str()?.to_owned(), entry));
            list(section, key).into_iter().filter_map(entry).collect()
        };
        let wrappers = |entry: &Value| entry.get("wrappers").and_then(Value::as_array).cloned();
        let all = at("graph", "all-features").and_then(Value::as_bool) == Some(true);
        Ok(Self {
            targets: texts(&list("graph", "targets")),
            features: if all { Features::All } else { Features::Default },
            licences: texts(&list("licenses", "allow")),
            bans: named("bans", "deny", "crate")
                .into_iter()
                .map(|(name, entry)| (name, texts(&wrappers(&entry).unwrap_or_default())))
                .collect(),
            skips: named("bans", "skip", "crate").into_iter().map(|(name, _)| name).collect(),
            ignores: named("advisories", "ignore", "id").into_iter().map(|(id, _)| id).collect(),
        })
    }

    /// Everything that the graph has against the rules.
    pub(super) fn check(&self, graph: &Graph) -> Vec<String> {
        let packages = || graph.packages.values();
        let foreign = || packages().filter(|package| package.source.is_some());
        let mut findings = Vec::new();
        for package in foreign() {
            let licence = package.licence.as_deref().unwrap_or_default();
            if !licence::is_allowed(licence, &self.licences) {
                findings.push(format!("{}: its licence is {licence:?}", shown(package)));
            }
            if !package.source.as_ref().is_some_and(|source| source.starts_with(DEFAULT_REGISTRY)) {
                findings.push(format!("{} comes from an unknown source", shown(package)));
            }
        }
        for user in packages() {
            let banned = user.depends_on.iter().filter_map(|id| graph.packages.get(id));
            for package in banned {
                let wrappers = self.bans.get(&package.name);
                if wrappers.is_some_and(|wrappers| !wrappers.contains(&user.name)) {
                    findings.push(format!("{} depends on {}, which is banned", shown(user), shown(package)));
                }
            }
        }
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in foreign() {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        let is_several = |name: &str| versions.get(name).is_some_and(|versions| versions.len() > 1);
        let several = versions.keys().filter(|name| is_several(name) && !self.skips.contains(**name));
        findings.extend(several.map(|name| {
            let versions: Vec<&str> = versions[name].iter().copied().collect();
            format!("{name} is there in several versions: {}", versions.join(", "))
        }));
        let stale = self.skips.iter().filter(|name| !is_several(name));
        findings.extend(stale.map(|name| format!("[bans] skip names {name}, which has one version only")));
        findings
    }
}

fn shown(package: &Package) -> String {
    format!("{} {}", package.name, package.version)
}

fn refuse_unknown(rules: &Table) -> io::Result<()> {
    for (section, keys) in rules {
        let known = KNOWN.iter().find(|(name, _)| name == section);
        let (_, known) = known.ok_or_else(|| invalid(format!("deny.toml: [{section}] is not checked")))?;
        let mut keys = keys.as_table().into_iter().flat_map(Table::keys);
        if let Some(key) = keys.find(|key| !known.contains(&key.as_str())) {
            return Err(invalid(format!("deny.toml: [{section}] {key} is not checked")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
        [licenses]
        allow = ['MIT']
        [bans]
        multiple-versions = 'deny'
        deny = [{ crate = 'bad', wrappers = ['wrapper'] }]
        skip = [{ crate = 'old', reason = 'of a driver' }]
        [sources]
        unknown-registry = 'deny'
        unknown-git = 'deny'
    ";

    /// A package, and the names of those that it depends on; ids are the name and the version.
    fn graph(packages: &[(&str, &str, &str, &str, &[&str])]) -> Graph {
        let package = |(name, version, licence, source, deps): &(&str, &str, &str, &str, &[&str])| {
            let package = Package {
                name: (*name).to_owned(),
                version: (*version).to_owned(),
                licence: Some((*licence).to_owned()),
                source: Some(format!("{source}index")),
                depends_on: deps.iter().map(|dep| (*dep).to_owned()).collect(),
            };
            (format!("{name} {version}"), package)
        };
        Graph { packages: packages.iter().map(package).collect() }
    }

    /// PBX-163
    #[test]
    fn every_rule_finds_what_breaks_it() {
        let policy = Policy::parse(RULES).unwrap();
        let git = "git+https://example.com/";
        let found = policy.check(&graph(&[
            ("fine", "1.0.0", "MIT OR GPL-3.0", DEFAULT_REGISTRY, &[]),
            ("viral", "1.0.0", "GPL-3.0", DEFAULT_REGISTRY, &[]),
            ("forked", "1.0.0", "MIT", git, &[]),
            ("user", "1.0.0", "MIT", DEFAULT_REGISTRY, &["bad 1.0.0"]),
            ("wrapper", "1.0.0", "MIT", DEFAULT_REGISTRY, &["bad 1.0.0"]),
            ("bad", "1.0.0", "MIT", DEFAULT_REGISTRY, &[]),
            ("twice", "1.0.0", "MIT", DEFAULT_REGISTRY, &[]),
            ("twice", "2.0.0", "MIT", DEFAULT_REGISTRY, &[]),
            ("old", "1.0.0", "MIT", DEFAULT_REGISTRY, &[]),
            ("old", "2.0.0", "MIT", DEFAULT_REGISTRY, &[]),
        ]));
        assert_eq!(
            found,
            [
                "forked 1.0.0 comes from an unknown source",
                "viral 1.0.0: its licence is \"GPL-3.0\"",
                "user 1.0.0 depends on bad 1.0.0, which is banned",
                "twice is there in several versions: 1.0.0, 2.0.0",
            ]
        );
        let stale = policy.check(&graph(&[("old", "1.0.0", "MIT", DEFAULT_REGISTRY, &[])]));
        assert_eq!(stale, ["[bans] skip names old, which has one version only"]);
    }

    /// PBX-163
    #[test]
    fn a_rule_that_is_not_checked_is_refused() {
        let with = |more: &str| Policy::parse(&format!("{RULES}{more}")).unwrap_err().to_string();
        assert!(with("private = 1").contains("[sources] private"));
        assert!(with("[output]\nfeature-depth = 1").contains("[output]"));
        let lax = RULES.replace("unknown-git = 'deny'", "unknown-git = 'allow'");
        assert!(Policy::parse(&lax).unwrap_err().to_string().contains("unknown-git"));
    }
}
