//! Rule: migrations have the same numbers and names in every store.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use crate::tree::Tree;

/// The migrations of each store, without file extensions.
type Stores<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut stores = Stores::new();
    for file in &tree.files {
        let Some((store, name)) = migration(&file.path) else { continue };
        if number(name).is_none() {
            findings.push(Finding::new(
                &file.path,
                1,
                "a migration is named by a number and words: 0001_create",
            ));
        }
        stores.entry(store).or_default().insert(name);
    }
    let all: BTreeSet<&str> = stores.values().flatten().copied().collect();
    for (store, names) in &stores {
        let folder = format!("stores/{store}/migrations");
        let missing =
            all.difference(names).map(|name| format!("migration {name} of other stores is missing"));
        findings.extend(missing.chain(doubled(names)).map(|message| Finding::new(&folder, 1, message)));
    }
    findings
}

/// The store and the name of the migration at a path such as `stores/sqlite/migrations/0001_create.sql`.
fn migration(path: &str) -> Option<(&str, &str)> {
    let (store, file) = path.strip_prefix("stores/")?.split_once("/migrations/")?;
    Some((store, file.split('.').next()?))
}

fn number(name: &str) -> Option<&str> {
    let (number, words) = name.split_once('_')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !words.is_empty()).then_some(number)
}

fn doubled(names: &BTreeSet<&str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let numbers = names.iter().filter_map(|name| number(name));
    numbers
        .filter(|number| !seen.insert(*number))
        .map(|number| format!("number {number} is there twice"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn migrations(paths: &[&str]) -> Vec<String> {
        let files: Vec<(String, &str)> = paths.iter().map(|path| (format!("stores/{path}"), "")).collect();
        found(check, &files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>())
    }

    #[test]
    fn stores_with_the_same_migrations_are_fine() {
        let paths = ["a/migrations/0001_create.sql", "b/migrations/0001_create.json", "b/src/lib.rs"];
        assert!(migrations(&paths).is_empty());
    }

    #[test]
    fn a_migration_that_one_store_lacks_is_found_there() {
        let paths =
            ["a/migrations/0001_create.sql", "a/migrations/0002_add.sql", "b/migrations/0001_create.sql"];
        assert_eq!(
            migrations(&paths),
            ["stores/b/migrations:1: migration 0002_add of other stores is missing"]
        );
    }

    #[test]
    fn numbers_are_needed_and_unique() {
        let found =
            migrations(&["a/migrations/create.sql", "a/migrations/0001_a.sql", "a/migrations/0001_b.sql"]);
        assert_eq!(
            found,
            [
                "stores/a/migrations/create.sql:1: a migration is named by a number and words: 0001_create",
                "stores/a/migrations:1: number 0001 is there twice",
            ]
        );
    }
}
