//! Finds statements by name in the `.sql` files of a store, at compile time.

use std::fs;
use std::io;
use std::path::Path;

const NAME: &str = "-- name: ";

/// Returns the statement below the line `-- name: NAME`, with its comments and without that line.
///
/// # Panics
/// If no statement has this name. [`statements!`](crate::statements) calls this at compile time.
#[must_use]
pub const fn statement(text: &'static str, name: &str) -> &'static str {
    let bytes = text.as_bytes();
    let mut line = 0;
    while line < bytes.len() {
        let next = next_line(bytes, line);
        if stands_at(bytes, line, NAME)
            && stands_at(bytes, line + NAME.len(), name)
            && next - 1 == line + NAME.len() + name.len()
        {
            return up_to_next_name(text.split_at(next).1);
        }
        line = next;
    }
    panic!("no statement has this name")
}

/// The text up to the next name, with one line break at its end.
const fn up_to_next_name(text: &'static str) -> &'static str {
    let bytes = text.as_bytes();
    let (mut line, mut end) = (0, 0);
    while line < bytes.len() && !stands_at(bytes, line, NAME) {
        let next = next_line(bytes, line);
        if bytes[line] != b'\n' {
            end = next;
        }
        line = next;
    }
    text.split_at(end).0
}

/// The position at which the next line begins.
const fn next_line(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() && bytes[at] != b'\n' {
        at += 1;
    }
    if at < bytes.len() { at + 1 } else { at }
}

const fn stands_at(bytes: &[u8], at: usize, word: &str) -> bool {
    let word = word.as_bytes();
    if at + word.len() > bytes.len() {
        return false;
    }
    let mut i = 0;
    while i < word.len() {
        if bytes[at + i] != word[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Finds the statements in a folder's files that the store does not declare, as `file: name`.
///
/// # Errors
/// If the folder can't be read.
pub fn undeclared(folder: &Path, declared: &[&[(&str, &str)]]) -> io::Result<Vec<String>> {
    let declared: Vec<&(&str, &str)> = declared.iter().copied().flatten().collect();
    let mut found = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let topic = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path)?;
        let names = text.lines().filter_map(|line| line.strip_prefix(NAME));
        let unknown = names.filter(|name| !declared.contains(&&(&*topic, *name)));
        found.extend(unknown.map(|name| format!("{topic}: {name}")));
    }
    Ok(found)
}

/// Declares the struct of a store's statements, one field each, and how to create it from
/// the names of the tables.
///
/// Each group names statements by file, the method of the names that renders them, and the type of the
/// result. `one` takes a statement from the named file. `each` lets the method `either` of the names choose
/// between that statement, for the native table, and the one in `items.sql`. A name without a statement does
/// not compile; a test, which the macro adds, finds statements that nothing uses.
#[macro_export]
macro_rules! statements {
    (@text one, $names:ident, $file:ident, $name:ident) => {
        const { $crate::statement(include_str!(concat!("../sql/", stringify!($file), ".sql")), stringify!($name)) }
    };
    (@text each, $names:ident, $file:ident, $name:ident) => {
        $names.either(
            $crate::statements!(@text one, $names, $file, $name),
            $crate::statements!(@text one, $names, items, $name),
        )
    };
    (@declared one, $file:ident, $name:ident) => {
        &[(stringify!($file), stringify!($name))]
    };
    (@declared each, $file:ident, $name:ident) => {
        &[(stringify!($file), stringify!($name)), ("items", stringify!($name))]
    };
    (
        $(#[$doc:meta])*
        $vis:vis struct $Sql:ident($names:ident: &$Names:ty) {
            $($(#[$field_doc:meta])* $field:ident: $field_type:ty = $value:expr,)*
        }
        $($kind:ident $render:ident -> $type:ty { $($file:ident: $($name:ident),+;)+ })+
    ) => {
        $(#[$doc])*
        $vis struct $Sql {
            $($(#[$field_doc])* pub(crate) $field: $field_type,)*
            $($($(pub(crate) $name: $type,)+)+)+
        }

        impl $Sql {
            #[cfg(test)]
            pub(crate) const DECLARED: &[&[(&str, &str)]] =
                &[$($($($crate::statements!(@declared $kind, $file, $name),)+)+)+];

            pub(crate) fn new($names: &$Names) -> Self {
                Self {
                    $($field: $value,)*
                    $($($($name: $names.$render($crate::statements!(@text $kind, $names, $file, $name)),)+)+)+
                }
            }
        }

        #[cfg(test)]
        #[test]
        fn every_statement_in_the_files_is_used() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql").as_ref();
            assert_eq!($crate::undeclared(folder, $Sql::DECLARED).unwrap(), [""; 0]);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "-- A topic.\n\n-- name: first\n-- Reads; no lock.\nSELECT 1\n\n-- name: first_of_all\nSELECT 2\n";

    #[test]
    fn a_statement_ends_before_the_next_name() {
        const FIRST: &str = statement(TEXT, "first");
        assert_eq!(FIRST, "-- Reads; no lock.\nSELECT 1\n");
        assert_eq!(statement(TEXT, "first_of_all"), "SELECT 2\n");
        assert_eq!(statement("-- name: last\nSELECT 3", "last"), "SELECT 3");
    }

    #[test]
    #[should_panic(expected = "no statement has this name")]
    fn part_of_a_name_is_no_name() {
        let _ = statement(TEXT, "first_of");
    }

    #[test]
    fn a_statement_that_nothing_declares_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("topic.sql"), TEXT).unwrap();
        let declared: &[&[(&str, &str)]] = &[&[("topic", "first")], &[("other", "first_of_all")]];
        assert_eq!(undeclared(folder.path(), declared).unwrap(), ["topic: first_of_all"]);
        let declared: &[&[(&str, &str)]] = &[&[("topic", "first"), ("topic", "first_of_all")]];
        assert!(undeclared(folder.path(), declared).unwrap().is_empty());
    }
}
