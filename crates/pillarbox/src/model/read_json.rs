//! Reads JSON payloads, with errors that name the field and contain nothing of the payload.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::Segment;

use super::Invalid;
use super::field_names::{FieldNames, Noting};

pub(super) fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Invalid> {
    let error = match serde_json::from_slice(json) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    // Reads it again, more slowly, for the place of the error and the names of the fields.
    let names = FieldNames::default();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let problem = match serde_path_to_error::deserialize::<_, T>(Noting::new(&mut reader, &names)) {
        Ok(_) => explain("", &error),
        Err(error) => explain(&path(error.path(), &names.borrow()), error.inner()),
    };
    let reason = format!("no {}: {problem}", std::any::type_name::<T>());
    Err(Invalid::Malformed { field: "payload", reason })
}

fn explain(path: &str, error: &serde_json::Error) -> String {
    let place = format!("line {} column {}", error.line(), error.column());
    if error.classify() != Category::Data {
        return format!("not JSON, at {place}");
    }
    let what = fault(&error.to_string()).map_or_else(String::new, |what| format!("{what}, "));
    match path {
        "" => format!("{what}at {place}"),
        path => format!("`{path}`: {what}at {place}"),
    }
}

/// The part of serde's message that stems from the type. The rest can quote the payload.
fn fault(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("missing field `") {
        let (field, _) = rest.split_once('`')?;
        return Some(format!("missing field `{field}`"));
    }
    let known =
        ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant ", "unknown field "];
    if !known.iter().any(|start| message.starts_with(start)) {
        return None;
    }
    let (_, expected) = message.rsplit_once(", expected ")?;
    let expected = expected.rsplit_once(" at line ").map_or(expected, |(expected, _)| expected);
    Some(format!("expected {expected}"))
}

/// The path to the value. A key that is not a field name is part of the payload and left out.
fn path(path: &serde_path_to_error::Path, names: &HashSet<&'static str>) -> String {
    let mut text = String::new();
    for segment in path {
        let key = match segment {
            Segment::Seq { index } => {
                text.push_str(&format!("[{index}]"));
                continue;
            }
            Segment::Map { key } if names.contains(key.as_str()) => key.as_str(),
            // The type has this variant, or its contents would not have been read.
            Segment::Enum { variant } => variant.as_str(),
            Segment::Map { .. } | Segment::Unknown => "?",
        };
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(key);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;

    use super::read_json;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Placed {
        order: i64,
        items: Vec<Item>,
        notes: HashMap<String, u8>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Item {
        price: u32,
        kind: Kind,
    }

    #[derive(Debug, Deserialize)]
    enum Kind {
        Book,
    }

    fn problem(json: &str) -> String {
        let error = read_json::<Placed>(json.as_bytes()).unwrap_err().to_string();
        let (_, problem) = error.split_once("Placed: ").expect("the type's name");
        problem.to_owned()
    }

    /// PBX-210
    #[test]
    fn an_unreadable_payload_names_the_field_and_what_was_expected() {
        for (json, expected) in [
            (r#"{"items":[],"notes":{}}"#, "missing field `order`, at line 1 column 23"),
            (r#"{"order":1,"items":[{"kind":"Book"}]}"#, "`items[0]`: missing field `price`, at"),
            (r#"{"order":"s3cret"}"#, "`order`: expected i64, at"),
            (r#"{"order":1,"items":[{"price":-7}]}"#, "`items[0].price`: expected u32, at"),
            (r#"{"order":1,"items":[{"price":1,"kind":"s3cret"}]}"#, "`items[0].kind`: expected `Book`, at"),
            ("{\"order\":1", "not JSON, at"),
            (r#"{"order":1,"items":[],"notes":{}} s3cret"#, "not JSON, at"),
        ] {
            let problem = problem(json);
            assert!(problem.starts_with(expected), "{problem} for {json}");
            assert!(!problem.contains("s3cret"), "{problem}");
        }
    }

    /// PBX-210
    #[test]
    fn an_error_shows_no_value_and_no_key_of_the_payload() {
        let problem = problem(r#"{"order":1,"items":[],"notes":{"ann@example.com":"s3cret, expected a"}}"#);
        assert!(problem.starts_with("`notes.?`: expected u8, at"), "{problem}");
    }

    /// PBX-210
    #[test]
    fn a_key_that_looks_like_the_name_of_a_field_is_not_shown() {
        let problem = problem(r#"{"order":1,"items":[],"notes":{"sk_live_1f2e":"s3cret"}}"#);
        assert!(problem.starts_with("`notes.?`: expected u8, at"), "{problem}");
    }

    /// PBX-210
    #[test]
    fn fields_inside_of_every_kind_of_type_are_named() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        enum Paid {
            ByCard { cards: Option<Vec<(u8, Card)>> },
            By(Box<Card>),
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Card {
            number: Number,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Number(u64);
        for (json, expected) in [
            (
                r#"{"ByCard":{"cards":[[1,{"number":"s3cret"}]]}}"#,
                "`ByCard.cards[0][1].number`: expected u64, at",
            ),
            (r#"{"By":{"number":"s3cret"}}"#, "`By.number`: expected u64, at"),
            (r#"{"s3cret":{}}"#, "expected `ByCard` or `By`, at"),
        ] {
            let error = read_json::<Paid>(json.as_bytes()).unwrap_err().to_string();
            let (_, problem) = error.split_once("Paid: ").expect("the type's name");
            assert!(problem.starts_with(expected), "{problem} for {json}");
        }
    }
}
