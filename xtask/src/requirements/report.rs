//! Reports which requirements tests cite and which they don't.

use std::collections::BTreeSet;
use std::fmt;

use super::citations::Citation;
use super::id::{FAMILIES, Id};
use super::table::Row;

/// Maximum characters of a row, so that it fits on one line of a terminal.
const MAX_LETTERS: usize = 90;

/// The result of one family.
struct Family {
    name: &'static str,
    rows: usize,
    uncited: Vec<(Id, String)>,
}

/// The result of all families.
pub(super) struct Report {
    families: Vec<Family>,
    /// Citations of requirements that do not exist.
    unknown: Vec<Citation>,
}

impl Report {
    /// Compares requirements with citations.
    pub(super) fn new(rows: &[Row], citations: Vec<Citation>) -> Self {
        let known: BTreeSet<Id> = rows.iter().map(|row| row.id).collect();
        let cited: BTreeSet<Id> = citations.iter().map(|citation| citation.id).collect();
        let unknown = citations.into_iter().filter(|citation| !known.contains(&citation.id)).collect();
        let families = FAMILIES.into_iter().map(|name| {
            let rows: Vec<&Row> = rows.iter().filter(|row| row.id.family == name).collect();
            let uncited = rows.iter().filter(|row| !cited.contains(&row.id));
            let uncited = uncited.map(|row| (row.id, shortened(&row.behaviour))).collect();
            Family { name, rows: rows.len(), uncited }
        });
        Self { families: families.collect(), unknown }
    }

    /// Whether tests cite all mandatory requirements, and none that does not exist.
    pub(super) fn is_good(&self) -> bool {
        self.mandatory().next().is_none() && self.unknown.is_empty()
    }

    fn mandatory(&self) -> impl Iterator<Item = Id> {
        let uncited = self.families.iter().flat_map(|family| &family.uncited);
        uncited.map(|(id, _)| *id).filter(|id| id.is_mandatory())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in &self.families {
            writeln!(f, "{}: {} of {} rows without a test", family.name, family.uncited.len(), family.rows)?;
            for (id, behaviour) in &family.uncited {
                writeln!(f, "  {id}  {behaviour}")?;
            }
        }
        for Citation { id, path, line } in &self.unknown {
            writeln!(f, "{path}:{line}: {id} is not a requirement")?;
        }
        let mandatory: Vec<String> = self.mandatory().map(|id| id.to_string()).collect();
        if !mandatory.is_empty() {
            writeln!(f, "must be proved and are not: {}", mandatory.join(" "))?;
        }
        Ok(())
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LETTERS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::table;

    fn report(page: &str, cited: &str) -> Report {
        let citation = |id| Citation { id, path: "a.rs".into(), line: 7 };
        Report::new(&table::rows(page).unwrap(), Id::find_all(cited).into_iter().map(citation).collect())
    }

    const PAGE: &str = "| EVT-001 | a |\n| EVT-002 | b |\n| RLY-001 | c |";

    #[test]
    fn uncited_rows_are_printed_by_family() {
        let text = report(PAGE, "EVT-001").to_string();
        assert!(
            text.starts_with("EVT: 1 of 2 rows without a test\n  EVT-002  b\nRLY: 1 of 1 rows"),
            "{text}"
        );
        assert!(text.ends_with("must be proved and are not: EVT-002\n"), "{text}");
    }

    #[test]
    fn only_mandatory_rows_and_unknown_ids_make_it_bad() {
        assert!(report(PAGE, "EVT-001 EVT-002").is_good());
        assert!(!report(PAGE, "EVT-001 RLY-001").is_good());
        let unknown = report(PAGE, "EVT-001 EVT-002 PBX-999");
        assert!(!unknown.is_good());
        assert!(unknown.to_string().contains("a.rs:7: PBX-999 is not a requirement"));
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(shortened(&"é".repeat(200)).chars().count(), MAX_LETTERS + 1);
        assert_eq!(shortened("short"), "short");
    }
}
