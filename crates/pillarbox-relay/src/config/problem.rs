//! What is wrong with a configuration: every bad key at once, each with where it stands. No message holds a value that may be secret.

use std::fmt;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The file, on this line.
    File {
        /// The line, from 1.
        line: usize,
    },
    /// A `[[source]]` of the file, on this line.
    Table {
        /// The line, from 1.
        line: usize,
    },
    /// A variable.
    Variable,
    /// A flag.
    Flag,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, or the part of the file.
    pub key: String,
    /// Where: a flag, a variable, a line of the file; none: nowhere, it is missing.
    pub place: Option<String>,
    /// What is wrong, as a person reads it.
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

/// Everything that is wrong.
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

/// The known name that an unknown one is a slip of, if it is near to one.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect::<String>().to_ascii_lowercase().replace('_', "-");
    let near = known.map(|candidate| (distance(&name, candidate), candidate)).min();
    near.filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 5).map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out or changed.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = corner + usize::from(from != *to);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
