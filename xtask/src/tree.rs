//! The files of the repository that the checks read.

use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use crate::source::Source;

/// Larger files contain data, not hand-written text, and are skipped.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const CONFORMANCE: &str = "crates/pillarbox-conformance/";

/// One text file.
pub(crate) struct File {
    /// Relative to the root, with `/` on every system.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Present for Rust files.
    pub(crate) source: Option<Source>,
}

/// All text files, sorted by path.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads all text files below the root, except for build output and version control.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut texts = Vec::new();
        collect(root, "", &mut texts)?;
        Ok(Self::of(texts))
    }

    /// A tree of these paths and texts.
    pub(crate) fn of(mut texts: Vec<(String, String)>) -> Self {
        texts.sort();
        let files = texts.into_iter().map(|(path, text)| {
            let source = path.ends_with(".rs").then(|| Source::parse(&text));
            File { path, text, source }
        });
        let mut tree = Self { files: files.collect() };
        tree.mark_test_files();
        tree
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| file.source.as_ref().map(|source| (file, source)))
    }

    /// The files whose paths have this ending.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    /// The file at exactly this path.
    pub(crate) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn mark_test_files(&mut self) {
        let declared: Vec<String> =
            self.rust().flat_map(|(file, source)| test_modules(file, source)).collect();
        for file in &mut self.files {
            let by_place = file.path.contains("/tests/") || file.path.starts_with(CONFORMANCE);
            let by_module = declared.iter().any(|module| is_in_module(&file.path, module));
            if let Some(source) = file.source.as_mut().filter(|_| by_place || by_module) {
                source.mark_as_test();
            }
        }
    }
}

/// The test modules that a file declares, as paths without an extension.
fn test_modules(file: &File, source: &Source) -> impl Iterator<Item = String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let folder = match name.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => folder.to_owned(),
        own => format!("{folder}/{own}"),
    };
    source.test_modules.iter().map(move |module| format!("{folder}/{module}"))
}

fn is_in_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn collect(folder: &Path, prefix: &str, texts: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = format!("{prefix}{}", name.to_string_lossy());
        let kind = entry.file_type()?;
        if is_foreign(&entry.path(), &name) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), texts)?;
        } else if kind.is_file()
            && let Some(text) = read_text(&entry)?
        {
            texts.push((path, text));
        }
    }
    Ok(())
}

/// Whether the checks skip this path. Cargo marks output folders with a tag file, wherever they are. In a
/// worktree `.git` is a file.
fn is_foreign(path: &Path, name: &OsStr) -> bool {
    name == ".git" || name == "node_modules" || path.join("CACHEDIR.TAG").exists()
}

fn read_text(entry: &DirEntry) -> io::Result<Option<String>> {
    if entry.metadata()?.len() > MAX_FILE_BYTES {
        return Ok(None);
    }
    Ok(String::from_utf8(fs::read(entry.path())?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_test(tree: &Tree, path: &str) -> bool {
        tree.find(path).unwrap().source.as_ref().unwrap().lines[0].in_test
    }

    #[test]
    fn test_files_are_known_by_their_place_or_by_who_declares_them() {
        let tree = tree(&[
            ("crates/a/src/engine.rs", "mod core;\n#[cfg(test)]\nmod sim;"),
            ("crates/a/src/engine/core.rs", "//! core"),
            ("crates/a/src/engine/sim.rs", "//! sim"),
            ("crates/a/src/engine/sim/faults.rs", "//! faults"),
            ("crates/a/src/engine/simple.rs", "//! simple"),
            ("crates/a/tests/write.rs", "//! write"),
            ("crates/pillarbox-conformance/src/lib.rs", "//! suite"),
        ]);
        for path in ["engine/sim.rs", "engine/sim/faults.rs"] {
            assert!(is_test(&tree, &format!("crates/a/src/{path}")), "{path}");
        }
        for path in ["engine/core.rs", "engine/simple.rs", "engine.rs"] {
            assert!(!is_test(&tree, &format!("crates/a/src/{path}")), "{path}");
        }
        assert!(is_test(&tree, "crates/a/tests/write.rs"));
        assert!(is_test(&tree, "crates/pillarbox-conformance/src/lib.rs"));
    }

    #[test]
    fn the_real_tree_is_read_without_build_output() {
        let tree = Tree::read(&crate::root()).unwrap();
        assert!(tree.find("xtask/src/tree.rs").is_some());
        assert!(tree.files.iter().all(|file| !file.path.starts_with("target/")));
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::of(files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect())
    }
}
