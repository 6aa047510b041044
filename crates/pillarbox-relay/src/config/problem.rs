//! Problems of a configuration, each with its place; no message contains a value that may be secret.

use std::fmt;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// The file, outside of `[[source]]`.
    File {
        /// The line, from 1.
        line: usize,
    },
    /// A `[[source]]` of the file.
    Table {
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable,
    /// A flag of the command line.
    Flag,
}

/// One problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, or the part of the file.
    pub key: String,
    /// The flag, environment variable or line of the file that sets the key; `None` if nothing sets it.
    pub place: Option<String>,
    /// The message: what is wrong and what is allowed.
    pub what: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, place: Option<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), place, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} ({place}): {}", self.key, self.what),
            None => write!(f, "{}: {}", self.key, self.what),
        }
    }
}

/// What was found in a configuration while it was read.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What keeps the relay from starting.
    pub(super) problems: Vec<Problem>,
    /// What an operator should know of.
    pub(super) warnings: Vec<Problem>,
}

/// All problems of a configuration, displayed one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// The known name most similar to an unknown one, if any is similar enough to be a typing mistake.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect::<String>().to_ascii_lowercase().replace('_', "-");
    let near = known.map(|candidate| (strsim::levenshtein(&name, candidate), candidate)).min();
    near.filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_recognised_and_other_words_are_not() {
        let known = || ["poll-interval", "max-retries", "sink"].into_iter();
        assert_eq!(nearest("pol-interval", known()), Some("poll-interval"));
        assert_eq!(nearest("max_retries", known()), Some("max-retries"));
        assert_eq!(nearest("maxretrys", known()), Some("max-retries"));
        assert_eq!(nearest("colour", known()), None);
    }
}
