//! Finds the parts of a file that are compiled for tests only.

use super::Line;

/// Attributes that mark the next item as test code.
const TEST_ATTRIBUTES: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test"];
const TEST_FILE_ATTRIBUTE: &str = "#![cfg(test)]";

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Outside,
    /// After the attribute and before the item's body. The depth is that of the brackets around both.
    Announced {
        depth: usize,
    },
    Inside {
        depth: usize,
    },
}

struct Marker {
    place: Place,
    depth: usize,
    /// The code of the announced item, as far as it has been read.
    item: String,
    modules: Vec<String>,
}

/// Marks the lines of test-only items. Returns the names of test modules in other files.
pub(super) fn mark(lines: &mut [Line]) -> Vec<String> {
    let whole_file = lines.iter().any(|line| line.code.trim() == TEST_FILE_ATTRIBUTE);
    let mut marker = Marker { place: Place::Outside, depth: 0, item: String::new(), modules: Vec::new() };
    for line in lines {
        line.in_test = marker.crosses(&line.code) || whole_file;
    }
    marker.modules
}

impl Marker {
    /// Reads one line. Returns whether any of it is test code.
    fn crosses(&mut self, code: &str) -> bool {
        let mut touched = self.place != Place::Outside;
        for (at, letter) in code.char_indices() {
            if self.place == Place::Outside && starts_test(&code[at..]) {
                self.place = Place::Announced { depth: self.depth };
                self.item.clear();
            }
            self.read(letter);
            touched |= self.place != Place::Outside;
        }
        self.item.push(' ');
        touched
    }

    fn read(&mut self, letter: char) {
        let announced_here = self.place == Place::Announced { depth: self.depth };
        match letter {
            '{' if announced_here => {
                self.place = Place::Inside { depth: self.depth };
                self.depth += 1;
            }
            '{' | '(' | '[' => self.depth += 1,
            '}' | ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.place == (Place::Inside { depth: self.depth }) {
                    self.place = Place::Outside;
                }
            }
            ';' if announced_here => {
                self.place = Place::Outside;
                self.modules.extend(declared_module(&self.item));
            }
            _ => self.item.push(letter),
        }
    }
}

fn starts_test(code: &str) -> bool {
    TEST_ATTRIBUTES.iter().any(|attribute| code.starts_with(attribute))
}

fn declared_module(item: &str) -> Option<String> {
    item.split_whitespace().skip_while(|word| *word != "mod").nth(1).map(String::from)
}

#[cfg(test)]
mod tests {
    use crate::source::Source;

    fn marks(text: &str) -> Vec<bool> {
        Source::parse(text).lines.iter().map(|line| line.in_test).collect()
    }

    #[test]
    fn a_test_module_ends_with_its_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { if x {} }\n  /// doc\n}\nfn c() {}";
        assert_eq!(marks(text), [false, true, true, true, true, true, false]);
    }

    #[test]
    fn a_test_item_ends_with_its_semicolon_or_body() {
        assert_eq!(marks("#[cfg(test)]\nuse a::{b, c};\nfn d() {}"), [true, true, false]);
        assert_eq!(marks("#[cfg(test)]\nfn a(b: [u8; 2]) {\n}\nfn c() {}"), [true, true, true, false]);
    }

    #[test]
    fn braces_in_strings_and_comments_do_not_count() {
        let text = "#[cfg(test)]\nmod tests {\n  let a = \"}\"; // }\n  let b = '}';\n}\nfn c() {}";
        assert_eq!(marks(text), [true, true, true, true, true, false]);
    }

    #[test]
    fn a_whole_file_can_be_for_tests() {
        assert_eq!(marks("//! sim\n#![cfg(test)]\nfn a() {}"), [true, true, true]);
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let source =
            Source::parse("mod a;\n#[cfg(test)]\npub(crate) mod sim;\n#[cfg(all(test, unix))] mod b;");
        assert_eq!(source.test_modules, ["sim", "b"]);
    }
}
