//! Rule: no file contains a path of the machine it was written on.

use super::{Finding, in_text};
use crate::tree::Tree;

const FOLDERS: [&str; 3] = ["work", "root", "farm"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let places = FOLDERS.map(|folder| format!("/{folder}/"));
    let names_place = |line: &str| places.iter().any(|place| line.contains(place));
    let written = tree.files.iter().filter(|file| !file.path.ends_with(".lock"));
    written.flat_map(|file| in_text(file, "a path of one machine", names_place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn folders_of_one_machine_are_found_in_any_file() {
        for folder in FOLDERS {
            let text = format!("a\nsee /{folder}/pillarbox");
            assert_eq!(found(check, &[("docs/a.md", &text)]), ["docs/a.md:2: a path of one machine"]);
        }
    }

    #[test]
    fn relative_paths_and_lock_files_are_fine() {
        assert!(found(check, &[("docs/a.md", "docs/working/rooted.md, homework/")]).is_empty());
        assert!(found(check, &[("Cargo.lock", &format!("/{}/", FOLDERS[0]))]).is_empty());
    }
}
