//! Parses the ids of requirements.

use std::fmt;

/// The families of ids, in the order of the requirements page.
pub(super) const FAMILIES: [&str; 4] = ["EVT", "RLY", "OBX", "PBX"];

const DIGITS: usize = 3;

/// An id such as `EVT-021`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Id {
    pub(super) family: &'static str,
    pub(super) number: u16,
}

impl Id {
    /// Every id in a text.
    pub(super) fn find_all(text: &str) -> Vec<Self> {
        let families = FAMILIES.into_iter().flat_map(|family| text.match_indices(family));
        families.filter_map(|(at, _)| Self::at(text, at)).collect()
    }

    /// The complete id that begins at this byte, if there is one.
    fn at(text: &str, at: usize) -> Option<Self> {
        let family = FAMILIES.into_iter().find(|family| text[at..].starts_with(family))?;
        let rest = text[at + family.len()..].strip_prefix('-')?;
        let after = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let digits = &rest[..rest.len() - after.len()];
        let stands_alone = !text[..at].ends_with(char::is_alphanumeric);
        (stands_alone && digits.len() == DIGITS).then_some(())?;
        digits.parse().ok().map(|number| Self { family, number })
    }

    /// Whether the product must not ship without a test of this requirement.
    pub(super) fn is_mandatory(self) -> bool {
        match self.family {
            "EVT" => true,
            "PBX" => matches!(self.number, 10..=16 | 19 | 20 | 22..=24 | 26 | 27),
            _ => false,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:03}", self.family, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        Id::find_all(text).iter().map(Id::to_string).collect()
    }

    #[test]
    fn whole_ids_are_found_and_parts_of_words_are_not() {
        assert_eq!(found("EVT-021, and PBX-010: kept"), ["EVT-021", "PBX-010"]);
        assert_eq!(found("EVT-21 EVT-0210 XEVT-021 EVT_021 EVT-"), Vec::<String>::new());
    }

    #[test]
    fn mandatory_rows_are_the_events_and_some_of_ours() {
        let mandatory = |text| Id::find_all(text)[0].is_mandatory();
        assert!(
            ["EVT-001", "EVT-190", "PBX-010", "PBX-016", "PBX-023", "PBX-027"].into_iter().all(mandatory)
        );
        assert!(
            !["PBX-017", "PBX-018", "PBX-021", "PBX-025", "RLY-001", "OBX-001"].into_iter().any(mandatory)
        );
    }
}
