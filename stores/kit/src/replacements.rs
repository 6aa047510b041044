//! Fills the placeholders of statements: the names of the tables of one outbox, and lists of columns.

/// Placeholders, such as `{event}`, and the text that replaces each of them.
#[derive(Debug, Clone, Default)]
pub struct Replacements(Vec<(&'static str, String)>);

/// The tables beside the event table that every SQL store has, by placeholder and suffix of the name.
pub const TABLES: [(&str, &str); 8] = [
    ("{node}", "node"),
    ("{slot}", "slot"),
    ("{group}", "group"),
    ("{attempt}", "attempt"),
    ("{audit}", "audit"),
    ("{meta}", "meta"),
    ("{join}", "join"),
    ("{join_member}", "join_member"),
];

/// The indexes of the event table that the stores name in statements, by placeholder and suffix of the name.
pub const EVENT_INDEXES: [(&str, &str); 6] = [
    ("{event_pending}", "pending"),
    ("{event_message}", "message"),
    ("{event_ended}", "ended"),
    ("{event_delayed}", "delayed"),
    ("{event_queue}", "queue"),
    ("{event_topic}", "topic"),
];

impl Replacements {
    /// Creates replacements that apply in this order; a text may contain placeholders that
    /// come later in the list.
    #[must_use]
    pub const fn new(replacements: Vec<(&'static str, String)>) -> Self {
        Self(replacements)
    }

    /// Adds a placeholder at the end.
    pub fn add(&mut self, placeholder: &'static str, text: String) {
        self.0.push((placeholder, text));
    }

    /// Adds tables or indexes by placeholder; `full` makes the full name from its own part.
    pub fn add_each(&mut self, parts: &[(&'static str, &str)], full: impl Fn(&str) -> String) {
        self.0.extend(parts.iter().map(|(placeholder, part)| (*placeholder, full(part))));
    }

    /// Returns the text with all placeholders replaced.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (placeholder, name)| text.replace(placeholder, name))
    }

    /// Returns the text with all placeholders replaced and without comment lines.
    #[must_use]
    pub fn statement(&self, text: &str) -> String {
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        self.fill(&lines.join("\n"))
    }

    /// The replacement of a placeholder, named without its braces; empty if there is none.
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
