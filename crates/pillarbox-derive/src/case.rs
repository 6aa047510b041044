//! The spellings that `rename_all` can give a name.

/// A way to join the words of a Rust identifier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Case {
    Snake,
    Kebab,
    Dot,
    ScreamingSnake,
    Camel,
    Pascal,
}

impl Case {
    const ALL: [(&'static str, Self); 6] = [
        ("snake_case", Self::Snake),
        ("kebab-case", Self::Kebab),
        ("dot.case", Self::Dot),
        ("SCREAMING_SNAKE_CASE", Self::ScreamingSnake),
        ("camelCase", Self::Camel),
        ("PascalCase", Self::Pascal),
    ];

    /// Finds a case by the name that is written in its own spelling.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, case)| *case)
    }

    /// All names, for error messages.
    pub(crate) fn names() -> String {
        Self::ALL.map(|(name, _)| format!("`{name}`")).join(", ")
    }

    /// Spells an identifier in this case.
    pub(crate) fn apply(self, identifier: &str) -> String {
        let words = words(identifier);
        let lower = || words.iter().map(|word| word.to_lowercase());
        match self {
            Self::Snake => lower().collect::<Vec<_>>().join("_"),
            Self::Kebab => lower().collect::<Vec<_>>().join("-"),
            Self::Dot => lower().collect::<Vec<_>>().join("."),
            Self::ScreamingSnake => lower().collect::<Vec<_>>().join("_").to_uppercase(),
            Self::Camel => lower().take(1).chain(lower().skip(1).map(|word| capitalised(&word))).collect(),
            Self::Pascal => lower().map(|word| capitalised(&word)).collect(),
        }
    }
}

/// Splits `HTTPRequestSent2` into `HTTP`, `Request` and `Sent2`: an acronym is one word, digits end a word.
fn words(identifier: &str) -> Vec<String> {
    let letters: Vec<char> = identifier.chars().collect();
    let mut words = vec![String::new()];
    for (at, &letter) in letters.iter().enumerate() {
        let follows_word = at > 0 && !letters[at - 1].is_uppercase();
        let begins_word = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter == '_' || (letter.is_uppercase() && (follows_word || begins_word)) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.push(letter);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EVT-013: an enum's variants become event types in the spelling a team already uses.
    #[test]
    fn every_case_spells_two_words() {
        let spelled = Case::ALL.map(|(_, case)| case.apply("OrderPlaced"));
        assert_eq!(
            spelled,
            ["order_placed", "order-placed", "order.placed", "ORDER_PLACED", "orderPlaced", "OrderPlaced"]
        );
    }

    #[test]
    fn every_case_is_found_by_its_name_and_no_other() {
        for (name, case) in Case::ALL {
            assert_eq!(Case::from_name(name), Some(case));
        }
        assert_eq!(Case::from_name("Snake_Case"), None);
        assert_eq!(Case::from_name(""), None);
    }

    #[test]
    fn acronyms_and_digits_do_not_split_into_letters() {
        assert_eq!(Case::Snake.apply("HTTPRequestSent"), "http_request_sent");
        assert_eq!(Case::Snake.apply("OrderV2Placed"), "order_v2_placed");
        assert_eq!(Case::Snake.apply("Order2Placed"), "order2_placed");
        assert_eq!(Case::Camel.apply("HTTPRequest"), "httpRequest");
        assert_eq!(Case::Pascal.apply("HTTPRequest"), "HttpRequest");
    }

    #[test]
    fn one_word_one_letter_and_underscores_are_spelled_too() {
        assert_eq!(Case::Camel.apply("Order"), "order");
        assert_eq!(Case::Kebab.apply("A"), "a");
        assert_eq!(Case::Dot.apply("Order_Placed__Late_"), "order.placed.late");
        assert_eq!(Case::ScreamingSnake.apply("orderPlaced"), "ORDER_PLACED");
        assert_eq!(Case::Snake.apply("ÄnderungErfasst"), "änderung_erfasst");
    }
}
