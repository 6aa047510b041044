//! The environment variables that tell tests about servers.

use std::env;

use super::Server;

/// An environment variable and its value.
pub(super) type Export = (&'static str, String);

/// The value of an environment variable. An empty one counts as unset.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Splits servers into those whose variables are set, because someone else runs them, and those that we
/// start.
pub(super) fn split<'a>(
    servers: &[&'a dyn Server],
    lookup: impl Fn(&str) -> Option<String>,
) -> (Vec<&'a dyn Server>, Vec<&'a dyn Server>) {
    servers.iter().partition(|server| lookup(server.variable()).is_some())
}

/// A shell command that sets the variable.
pub(super) fn set((name, value): &Export) -> String {
    format!("export {name}={}", quoted(value))
}

/// A shell command that unsets the variable.
pub(super) fn unset(name: &str) -> String {
    format!("unset {name}")
}

fn quoted(value: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/:@.-_".contains(letter);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ALL;

    #[test]
    fn a_server_that_is_named_by_its_variable_is_left_alone() {
        let named = |name: &str| (name == "PILLARBOX_TEST_POSTGRES_URL").then(|| "postgres://db".to_owned());
        let (given, ours) = split(&ALL, named);
        assert_eq!(given.iter().map(|server| server.name()).collect::<Vec<_>>(), ["postgres-15"]);
        assert!(ours.iter().any(|server| server.name() == "postgres-18"));
        assert_eq!(split(&ALL, |_| None).1.len(), ALL.len());
    }

    #[test]
    fn lines_can_be_read_by_a_shell() {
        let url = ("A_URL", "postgres://postgres@127.0.0.1:15415/postgres".to_owned());
        assert_eq!(set(&url), "export A_URL=postgres://postgres@127.0.0.1:15415/postgres");
        assert_eq!(set(&("A_BIN", "/it's here/bin".into())), r"export A_BIN='/it'\''s here/bin'");
        assert_eq!(unset("A_URL"), "unset A_URL");
    }
}
