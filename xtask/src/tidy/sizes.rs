//! Rule: files are short enough to read as a whole.

use super::Finding;
use crate::tree::Tree;

const MAX_CODE_LINES: usize = 600;
const MAX_PAGE_LINES: [(&str, usize); 2] = [("README.md", 150), ("ARCHITECTURE.md", 400)];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter_map(|file| {
            let (lines, max) = (file.text.lines().count(), max_lines(&file.path)?);
            let message = format!("{lines} lines, of at most {max}");
            (lines > max).then(|| Finding::new(&file.path, max + 1, message))
        })
        .collect()
}

fn max_lines(path: &str) -> Option<usize> {
    let page = MAX_PAGE_LINES.iter().find(|(page, _)| *page == path).map(|(_, max)| *max);
    let is_code = path.ends_with(".rs") || path.ends_with(".sql");
    page.or(is_code.then_some(MAX_CODE_LINES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn the_bound_itself_is_fine_and_one_more_is_not() {
        for (path, max) in [("a.rs", 600), ("a.sql", 600), ("README.md", 150), ("ARCHITECTURE.md", 400)] {
            assert!(found(check, &[(path, &"-\n".repeat(max))]).is_empty(), "{path}");
            let finding = format!("{path}:{next}: {next} lines, of at most {max}", next = max + 1);
            assert_eq!(found(check, &[(path, &"-\n".repeat(max + 1))]), [finding]);
        }
    }

    #[test]
    fn data_and_guides_have_no_bound() {
        assert!(found(check, &[("Cargo.lock", &"-\n".repeat(9_000))]).is_empty());
        assert!(found(check, &[("docs/reference/requirements.md", &"-\n".repeat(700))]).is_empty());
    }
}
