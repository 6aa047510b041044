//! Compares the requirements with the tests that cite them.

mod citations;
mod id;
mod report;
mod table;

use std::io;
use std::path::Path;

use crate::command::Mode;
use crate::tree::Tree;
use report::Report;

const PAGE: &str = "docs/reference/requirements.md";

/// Prints the requirements that no test cites. Returns whether the mode is satisfied.
pub(crate) fn run(root: &Path, mode: Mode) -> io::Result<bool> {
    let report = report(&Tree::read(root)?)?;
    print!("{report}");
    Ok(mode == Mode::Show || report.is_good())
}

fn report(tree: &Tree) -> io::Result<Report> {
    let page = tree.find(PAGE).ok_or_else(|| io::Error::other(format!("{PAGE} is not there")))?;
    let rows = table::rows(&page.text).map_err(|why| io::Error::other(format!("{PAGE}:{why}")))?;
    Ok(Report::new(&rows, citations::find(tree)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_page_has_every_row() {
        let tree = Tree::read(&crate::root()).unwrap();
        let rows = table::rows(&tree.find(PAGE).unwrap().text).unwrap();
        let count = |family| rows.iter().filter(|row| row.id.family == family).count();
        // The first three families are the specifications' own and complete. The last one grows.
        let [specified @ .., own] = id::FAMILIES.map(count);
        assert_eq!((specified, own >= 89), ([96, 33, 128], true));
    }

    #[test]
    fn a_missing_page_is_told() {
        let error = report(&Tree::of(Vec::new())).err().unwrap();
        assert_eq!(error.to_string(), format!("{PAGE} is not there"));
    }
}
