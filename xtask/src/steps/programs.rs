//! Test programs, read from cargo's messages about a build.

use std::path::{Path, PathBuf};

/// The slowest programs, with the number of their tests that run at once. These start first.
///
/// Most of these tests wait for servers, so more of them run at once than the machine has cores.
const LONG: [(&str, usize); 12] = [
    ("pillarbox-stores/conformance", 6),
    ("pillarbox-stores/differential", 6),
    ("pillarbox-stores/claimers", 1),
    ("pillarbox-relay/relay", 4),
    ("pillarbox-cli/commands", 4),
    ("pillarbox-postgres/store", 4),
    ("pillarbox-mysql/store", 4),
    ("pillarbox-sinks/brokers", 4),
    ("pillarbox/simulation", 2),
    ("pillarbox-stores/crash", 1),
    ("pillarbox-cli/relay_crash", 1),
    ("pillarbox-stores/workers", 1),
];
/// Programs whose tests need processes to keep their leases. Other programs beside them would delay the
/// heartbeats, and the crash tests start servers of their own, up to six at once.
const ALONE: [&str; 3] = ["pillarbox-stores/crash", "pillarbox-cli/relay_crash", "pillarbox-stores/workers"];
const THREADS: usize = 2;

/// One test program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    /// The package and the target, as in `pillarbox-stores/conformance`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The folder of its package, which it runs in.
    pub(super) folder: PathBuf,
}

impl Program {
    /// Parses a line of `cargo --message-format=json`, if it is about a test program.
    pub(super) fn in_message(line: &str) -> Option<Self> {
        let profile = line.split_once(r#""profile":{"#)?.1.split('}').next()?;
        let is_bench = line.contains(r#""kind":["bench"]"#);
        if is_bench || !profile.ends_with(r#""test":true"#) {
            return None;
        }
        let path = PathBuf::from(string_after(line, r#""executable":""#)?);
        let manifest = string_after(line, r#""manifest_path":""#)?;
        let folder = Path::new(&manifest).parent()?.to_owned();
        let target = line.split_once(r#""target":{"#)?.1;
        let name = string_after(target, r#""name":""#)?;
        let package = package_in(line)?;
        Some(Self { name: format!("{package}/{name}"), path, folder })
    }

    /// The number of tests that run at once.
    pub(super) fn threads(&self) -> usize {
        let long = LONG.iter().find(|(name, _)| *name == self.name);
        long.map_or(THREADS, |(_, threads)| *threads)
    }

    /// Whether no other program may run at the same time.
    pub(super) fn runs_alone(&self) -> bool {
        ALONE.contains(&self.name.as_str())
    }

    /// Its position in the order of starts.
    pub(super) fn rank(&self) -> usize {
        LONG.iter().position(|(name, _)| *name == self.name).unwrap_or(LONG.len())
    }
}

/// The name in a package id such as `path+file:///src/stores/mysql#pillarbox-mysql@0.1.0` or `…/xtask#0.1.0`.
fn package_in(line: &str) -> Option<String> {
    let id = string_after(line, r#""package_id":""#)?;
    let (place, version) = id.rsplit_once('#')?;
    let name = version.split_once('@').map(|(name, _)| name);
    name.or_else(|| place.rsplit('/').next()).map(str::to_owned)
}

/// The text after a key, up to the next quotation mark. Paths and names that contain one are not supported.
fn string_after(line: &str, key: &str) -> Option<String> {
    let rest = line.split_once(key)?.1;
    rest.split('"').next().map(|text| text.replace(r"\\", r"\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///src/stores/mysql#pillarbox-mysql@0.1.0","manifest_path":"/src/stores/mysql/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"writing","src_path":"/src/stores/mysql/tests/writing/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"1","debuginfo":0,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/target/debug/deps/writing-1"],"executable":"/target/debug/deps/writing-1","fresh":false}"#;

    #[test]
    fn a_program_is_known_by_its_package_and_target() {
        let program = Program::in_message(MESSAGE).unwrap();
        assert_eq!(program.name, "pillarbox-mysql/writing");
        assert_eq!(program.path, Path::new("/target/debug/deps/writing-1"));
        assert_eq!(program.folder, Path::new("/src/stores/mysql"));
        assert_eq!((program.threads(), program.runs_alone()), (THREADS, false));
    }

    #[test]
    fn a_package_that_is_named_as_its_folder_is_known_too() {
        let line = r#""package_id":"path+file:///src/xtask#0.1.0""#;
        assert_eq!(package_in(line).as_deref(), Some("xtask"));
    }

    #[test]
    fn libraries_and_benchmarks_are_no_test_programs() {
        let library = MESSAGE.replace(r#"/target/debug/deps/writing-1","fresh"#, r#"null,"fresh"#);
        let plain = MESSAGE
            .replace(r#""overflow_checks":true,"test":true}"#, r#""overflow_checks":true,"test":false}"#);
        assert!(plain.contains(r#""test":false}"#) && Program::in_message(&plain).is_none());
        assert!(Program::in_message(&MESSAGE.replace(r#""kind":["test"]"#, r#""kind":["bench"]"#)).is_none());
        assert!(Program::in_message(&library.replace(r#""executable":""#, r#""executable":"#)).is_none());
    }
}
