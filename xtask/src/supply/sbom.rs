//! The bill of materials of a package, in CycloneDX 1.5.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use super::graph::{Graph, Package};
use super::invalid;

/// The document of a package: everything that it is built with, by default features and for all targets. It has
/// no date and no serial number, so that equal inputs give equal documents.
pub(super) fn document(
    graph: &Graph,
    package: &str,
    locked: &BTreeMap<(String, String), Option<String>>,
) -> io::Result<Value> {
    let root =
        graph.find(package).ok_or_else(|| invalid(format!("the workspace has no package {package}")))?;
    let parts = graph.closure(root);
    let package = |id: &&str| graph.packages.get(*id);
    let components: Vec<Value> = parts
        .iter()
        .filter(|id| **id != root)
        .filter_map(package)
        .map(|part| component(part, "library", locked))
        .collect();
    let depends_on = |part: &Package| -> Vec<String> {
        part.depends_on.iter().filter_map(|id| graph.packages.get(id)).map(purl).collect()
    };
    let dependencies: Vec<Value> = parts
        .iter()
        .filter_map(package)
        .map(|part| json!({ "ref": purl(part), "dependsOn": depends_on(part) }))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": component(&graph.packages[root], "application", locked) },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

fn component(package: &Package, kind: &str, locked: &BTreeMap<(String, String), Option<String>>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "purl": purl(package),
    });
    if let Some(licence) = &package.licence {
        component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
    }
    if let Some(Some(checksum)) = locked.get(&(package.name.clone(), package.version.clone())) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "packages": [
            { "id": "a", "name": "app", "version": "1.0.0", "license": "MIT", "source": null },
            { "id": "b", "name": "lib", "version": "2.0.0", "license": "MIT/Apache-2.0", "source": "registry+x" },
            { "id": "c", "name": "checker", "version": "3.0.0", "license": "MIT", "source": "registry+x" }
        ],
        "resolve": { "nodes": [
            { "id": "a", "deps": [
                { "pkg": "b", "dep_kinds": [{ "kind": null }] },
                { "pkg": "c", "dep_kinds": [{ "kind": "dev" }] }
            ] },
            { "id": "b", "deps": [] },
            { "id": "c", "deps": [] }
        ] }
    }"#;

    /// PBX-163
    #[test]
    fn a_document_has_what_is_built_in_and_nothing_of_the_tests() {
        let graph = Graph::parse(METADATA).unwrap();
        let checksum = (("lib".to_owned(), "2.0.0".to_owned()), Some("5eed".to_owned()));
        let bill = document(&graph, "app", &[checksum].into()).unwrap();
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/app@1.0.0");
        let lib = json!({
            "type": "library", "bom-ref": "pkg:cargo/lib@2.0.0", "name": "lib", "version": "2.0.0",
            "purl": "pkg:cargo/lib@2.0.0", "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "5eed" }]
        });
        assert_eq!(bill["components"], json!([lib]));
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/lib@2.0.0"]));
        assert!(document(&graph, "lib", &BTreeMap::new()).is_err(), "not of the workspace");
    }
}
