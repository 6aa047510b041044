//! What the texts of statements have placeholders for: the names of the tables of one outbox, lists of columns.

/// Placeholders, such as `{event}`, and the text that takes the place of each.
#[derive(Debug, Clone, Default)]
pub struct Replacements(Vec<(&'static str, String)>);

impl Replacements {
    /// Replacements in this order; a text may hold placeholders of those that follow.
    #[must_use]
    pub const fn new(replacements: Vec<(&'static str, String)>) -> Self {
        Self(replacements)
    }

    /// Adds one.
    pub fn add(&mut self, placeholder: &'static str, text: String) {
        self.0.push((placeholder, text));
    }

    /// Adds tables or indexes, each by its placeholder and its own part of the full name.
    pub fn add_each(&mut self, parts: &[(&'static str, &str)], full: impl Fn(&str) -> String) {
        self.0.extend(parts.iter().map(|(placeholder, part)| (*placeholder, full(part))));
    }

    /// The text with every placeholder replaced.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (placeholder, name)| text.replace(placeholder, name))
    }

    /// The same without the lines that are comments.
    #[must_use]
    pub fn statement(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        self.fill(&lines.join("\n"))
    }

    /// What takes the place of a placeholder, which is named without its braces; empty if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(placeholder, _)| placeholder.trim_matches(['{', '}']) == name);
        found.map_or("", |(_, text)| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_its_names_and_no_comments() {
        let mut names = Replacements::new(vec![("{found}", "{event} e".to_owned())]);
        names.add("{event}", "outbox_event".to_owned());
        names.add_each(&[("{node}", "node")], |part| format!("outbox_{part}"));
        assert_eq!(
            names.statement("-- Why.\nSELECT 1\nFROM {found}, {node}\n"),
            "SELECT 1\nFROM outbox_event e, outbox_node"
        );
        assert_eq!((names.get("node"), names.get("other")), ("outbox_node", ""));
    }
}
