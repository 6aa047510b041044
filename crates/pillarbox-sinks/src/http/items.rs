//! Reads item-by-item responses: which events of a batch the endpoint accepted.

use std::collections::BTreeMap;

use pillarbox::port::Verdict;
use serde_json::{Map, Value};

use super::element::Element;
use super::words::{Meaning, UnknownWords};
use crate::transport::EndpointResponse;

/// Maximum length of an unknown status in errors and logs, in characters.
const WORD_MAX: usize = 64;

/// The content of a response body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The body has no result per event.
    Nothing,
    /// A verdict for each event, in the order of the request.
    Each(Vec<Verdict>),
    /// The results do not match the events of the request. Contains the reason.
    Mismatch(String),
}

/// Reads the body of the response to a request with these events.
pub(super) fn read(
    body: &[u8],
    elements: &[Element<'_>],
    answer: &EndpointResponse,
    unknown: &UnknownWords,
) -> Said {
    let Some(items) = item_list(body) else { return Said::Nothing };
    if items.len() != elements.len() {
        return Said::Mismatch(format!(
            "the answer has {} results for {} events",
            items.len(),
            elements.len()
        ));
    }
    let order = match by_id(&items, elements) {
        Ok(order) => order,
        Err(mismatch) => return Said::Mismatch(mismatch),
    };
    let verdicts = order.into_iter().map(|place| verdict(&items[place], answer, unknown));
    Said::Each(verdicts.collect())
}

/// Whether a truncated body may have been an item-by-item response.
pub(super) fn may_be_items(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'[' | b'{'))
}

/// The list of results in the body, if at least one element is a result.
fn item_list(body: &[u8]) -> Option<Vec<Value>> {
    if !may_be_items(body) {
        return None;
    }
    let items = match serde_json::from_slice(body).ok()? {
        Value::Array(items) => items,
        Value::Object(mut object) => match object.remove("results").or_else(|| object.remove("items")) {
            Some(Value::Array(items)) => items,
            _ => return None,
        },
        _ => return None,
    };
    items.iter().filter_map(Value::as_object).any(tells).then_some(items)
}

/// Whether an element is a result: it has a status, a success flag or an error.
fn tells(item: &Map<String, Value>) -> bool {
    let status = match item.get("status") {
        Some(Value::String(_)) => true,
        Some(Value::Number(number)) => number.as_u64().is_some_and(|code| (100..600).contains(&code)),
        _ => false,
    };
    status || item.get("success").is_some_and(Value::is_boolean) || item.contains_key("error")
}

/// The position of each event's result: by id if the results have the ids of events, otherwise in order.
fn by_id(items: &[Value], elements: &[Element<'_>]) -> Result<Vec<usize>, String> {
    let ids: Option<Vec<&str>> = items.iter().map(|item| item.get("id")?.as_str()).collect();
    // In reverse, so that the first of several results for one id remains.
    let ids: BTreeMap<&str, usize> =
        ids.unwrap_or_default().into_iter().enumerate().rev().map(|(place, id)| (id, place)).collect();
    let places: Vec<Option<usize>> =
        elements.iter().map(|element| ids.get(element.event.id().as_str()).copied()).collect();
    if places.iter().all(Option::is_none) {
        return Ok((0..items.len()).collect());
    }
    let all: Option<Vec<usize>> = places.into_iter().collect();
    all.ok_or_else(|| "the answer has results of some of the events only".to_owned())
}

/// The verdict of one element of the list.
///
/// An element that is not an object is a status or a success flag by itself. Null means success: endpoints that
/// list errors by position leave the places of accepted events empty.
fn verdict(item: &Value, answer: &EndpointResponse, unknown: &UnknownWords) -> Verdict {
    let by_itself = |name: &str| Map::from_iter([(name.to_owned(), item.clone())]);
    match item {
        Value::Null => Verdict::Accepted,
        Value::Object(result) => verdict_of(result, answer, unknown),
        Value::Bool(_) => verdict_of(&by_itself("success"), answer, unknown),
        Value::String(_) | Value::Number(_) | Value::Array(_) => {
            verdict_of(&by_itself("status"), answer, unknown)
        }
    }
}

/// The verdict of one result.
fn verdict_of(item: &Map<String, Value>, answer: &EndpointResponse, unknown: &UnknownWords) -> Verdict {
    let status = item.get("status").filter(|status| !status.is_null());
    let said = status.map(meaning);
    let success = item.get("success").and_then(Value::as_bool);
    let error = item.get("error").and_then(error_text);
    let says_no = success == Some(false) || error.is_some();
    let blame = match said {
        Some(Meaning::Yes) | None if says_no => Meaning::Item,
        Some(Meaning::Yes) | None => return Verdict::Accepted,
        // An explicit success outweighs an unknown status.
        Some(Meaning::Unknown) if success == Some(true) && !says_no => return Verdict::Accepted,
        Some(meaning) => meaning,
    };
    let shown = status.map(|status| word(status, answer)).unwrap_or_default();
    let message = || item.get("message").and_then(Value::as_str).map(str::to_owned);
    let detail = error.filter(|error| !error.is_empty()).or_else(message).unwrap_or_default();
    let refused = || {
        let refused = match said {
            None | Some(Meaning::Yes) => "the endpoint refused the event".to_owned(),
            Some(_) => format!("the endpoint refused the event with status {shown}"),
        };
        answer.quoting(refused, &detail)
    };
    let after = answer.after;
    match blame {
        Meaning::TooLarge => Verdict::Rejected { error: refused() },
        Meaning::Yes | Meaning::Item => Verdict::Failed { error: refused(), after },
        Meaning::Endpoint => {
            answer.unavailable(answer.quoting(format!("the endpoint failed with status {shown}"), &detail))
        }
        Meaning::Unknown => {
            unknown.saw(&shown);
            let what = "the endpoint answered for the event with the unknown status";
            answer.unavailable(answer.quoting(format!("{what} {shown:?}"), &detail))
        }
    }
}

fn meaning(status: &Value) -> Meaning {
    match status {
        Value::String(word) => Meaning::of_word(word),
        Value::Number(code) => match code.as_u64() {
            Some(code @ 100..600) => Meaning::of_code(code),
            _ => Meaning::Unknown,
        },
        _ => Meaning::Unknown,
    }
}

/// A status for errors and logs: short, on one line and without secrets.
fn word(status: &Value, answer: &EndpointResponse) -> String {
    let text = match status {
        Value::String(word) => word.to_lowercase(),
        Value::Number(code) => code.to_string(),
        Value::Bool(said) => said.to_string(),
        _ => "that is no word".to_owned(),
    };
    answer.clean(&text).chars().take(WORD_MAX).collect()
}

/// The error text of a result. Null, false and an empty string mean no error.
fn error_text(error: &Value) -> Option<String> {
    match error {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        Value::Object(object) => {
            Some(object.get("message").and_then(Value::as_str).unwrap_or_default().to_owned())
        }
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(true) | Value::Array(_) => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::Event;
    use proptest::prelude::*;
    use reqwest::Url;

    use super::super::element::Json;
    use super::*;

    fn said(body: &[u8], count: usize) -> Said {
        let url = Arc::new(Url::parse("http://h/").unwrap());
        let events: Vec<Event> =
            (0..count).map(|n| Event::text("t", "{}").id(format!("e{n}")).build().unwrap()).collect();
        let element = |event| Element { event, url: Arc::clone(&url), json: Json::Payload };
        let elements: Vec<Element<'_>> = events.iter().map(element).collect();
        read(body, &elements, &EndpointResponse::of(200, body), &UnknownWords::default())
    }

    /// A value as some endpoint might put it into an answer.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (100..600_u64).prop_map(Value::from),
            "(ok|ERROR|failed|e[0-9]|.{0,5})".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let name = "(id|status|success|error|message|results|items|x)";
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// PBX-018
        #[test]
        fn any_answer_gives_a_verdict_for_each_event_or_none(value in value(), count in 1..4_usize) {
            if let Said::Each(verdicts) = said(value.to_string().as_bytes(), count) {
                prop_assert_eq!(verdicts.len(), count);
            }
        }

        /// PBX-018
        #[test]
        fn a_word_nobody_knows_is_never_a_yes(word in "[a-zA-Z_ -]{0,12}") {
            prop_assume!(Meaning::of_word(&word) == Meaning::Unknown);
            let body = serde_json::json!([{"status": word}, {"status": "ok"}]).to_string();
            let Said::Each(verdicts) = said(body.as_bytes(), 2) else { panic!("{body}") };
            prop_assert!(matches!(verdicts[0], Verdict::Unavailable { .. }), "{:?}", verdicts[0]);
            prop_assert_eq!(&verdicts[1], &Verdict::Accepted);
        }

        /// PBX-018
        #[test]
        fn a_bare_word_nobody_knows_is_never_a_yes(word in "[a-zA-Z_ -]{0,12}") {
            prop_assume!(Meaning::of_word(&word) == Meaning::Unknown);
            let body = serde_json::json!([word, {"status": "ok"}]).to_string();
            let Said::Each(verdicts) = said(body.as_bytes(), 2) else { panic!("{body}") };
            prop_assert!(matches!(verdicts[0], Verdict::Unavailable { .. }), "{:?}", verdicts[0]);
        }

        /// PBX-018
        #[test]
        fn rubbish_says_nothing(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assume!(serde_json::from_slice::<Value>(&bytes).is_err());
            prop_assert_eq!(said(&bytes, 2), Said::Nothing);
        }
    }

    /// PBX-018: an element that is no object is judged as the status or the flag that it is.
    #[test]
    fn an_element_that_is_no_object_is_no_success_by_that() {
        let of = |element: &str| {
            let body = format!("[{element}, {{\"status\": \"ok\"}}]");
            let Said::Each(verdicts) = said(body.as_bytes(), 2) else { panic!("{body}") };
            assert_eq!(verdicts[1], Verdict::Accepted);
            verdicts[0].clone()
        };
        for accepted in ["null", "\"OK\"", "true", "200"] {
            assert_eq!(of(accepted), Verdict::Accepted, "{accepted}");
        }
        for endpoint in ["\"INTERNAL_ERROR\"", "503", "[]", "7", "\"\""] {
            assert!(matches!(of(endpoint), Verdict::Unavailable { .. }), "{endpoint}: {:?}", of(endpoint));
        }
        for item in ["\"BAD_REQUEST\"", "400", "false"] {
            assert!(matches!(of(item), Verdict::Failed { .. }), "{item}: {:?}", of(item));
        }
    }
}
