//! Reads the rows of the requirements page.

use std::collections::BTreeSet;

use super::id::Id;

/// One requirement.
pub(super) struct Row {
    pub(super) id: Id,
    pub(super) behaviour: String,
}

/// Reads the table rows that begin with an id. The error names the line of a row that is empty or a
/// duplicate.
pub(super) fn rows(page: &str) -> Result<Vec<Row>, String> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let Some(row) = row(line) else { continue };
        if row.behaviour.is_empty() {
            return Err(format!("{}: {} has no text", index + 1, row.id));
        }
        if !seen.insert(row.id) {
            return Err(format!("{}: {} is there twice", index + 1, row.id));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Option<Row> {
    let (id, behaviour) = line.strip_prefix('|')?.split_once('|')?;
    match Id::find_all(id)[..] {
        [only] if only.to_string() == id.trim() => {
            Some(Row { id: only, behaviour: behaviour.trim_end_matches('|').trim().to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_prose_is_not() {
        let page =
            "EVT-009 in prose\n| id | behaviour |\n|---|---|\n| EVT-001 | Sorted. |\n| see EVT-002 | no |";
        let rows = rows(page).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].id.to_string().as_str(), rows[0].behaviour.as_str()), ("EVT-001", "Sorted."));
    }

    #[test]
    fn doubled_and_empty_rows_are_refused_with_their_line() {
        let why = |page| rows(page).err().unwrap();
        assert_eq!(why("| EVT-001 | a |\n| EVT-001 | b |"), "2: EVT-001 is there twice");
        assert_eq!(why("\n| EVT-001 |  |"), "2: EVT-001 has no text");
    }
}
