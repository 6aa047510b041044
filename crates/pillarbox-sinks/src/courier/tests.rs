//! Carrying with a courier that knows which places are there.

use std::sync::Mutex;

use pillarbox::Event;

use super::*;

/// Knows places by the type of events, and what it takes there.
#[derive(Default)]
struct Fake {
    sent: Mutex<Vec<Vec<String>>>,
}

impl Courier for Fake {
    type Message<'a> = (String, String);

    fn prepare(&self, delivery: &Delivery) -> Result<Self::Message<'_>, Verdict> {
        let event = &delivery.event;
        match event.event_type() {
            "large" => Err(rejected("too large")),
            place => Ok((place.to_owned(), event.id().as_str().to_owned())),
        }
    }

    fn together(&self, one: &Self::Message<'_>, other: &Self::Message<'_>) -> bool {
        one.0 == other.0
    }

    async fn send<'a>(&'a self, run: Vec<Self::Message<'a>>) -> Vec<Verdict> {
        self.sent.lock().unwrap().push(run.iter().map(|(_, id)| id.clone()).collect());
        let verdict = |(place, id): &(String, String)| match (place.as_str(), id.as_str()) {
            ("missing", _) | (_, "bad") => unavailable("not there"),
            _ => Verdict::Accepted,
        };
        run.iter().map(verdict).collect()
    }
}

fn delivered(events: &[(&'static str, &str)]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let delivery = |(place, id): &(&'static str, &str)| {
        Delivery::first(Event::text(*place, "{}").id(*id).build().unwrap())
    };
    let batch: Vec<_> = events.iter().map(delivery).collect();
    let fake = Fake::default();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let verdicts = runtime.block_on(deliver(&fake, &batch));
    let name = |verdict: &Verdict| match verdict {
        Verdict::Accepted => "accepted",
        Verdict::Rejected { .. } => "rejected",
        Verdict::Unavailable { .. } => "unavailable",
        Verdict::Skipped => "skipped",
        _ => "other",
    };
    (verdicts.iter().map(name).collect(), fake.sent.into_inner().unwrap())
}

/// PBX-010
#[test]
fn what_goes_to_one_place_goes_together_and_the_rest_in_turn() {
    let (verdicts, sent) = delivered(&[("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")]);
    assert_eq!(verdicts, ["accepted"; 4]);
    assert_eq!(sent, [vec!["1", "2"], vec!["3"], vec!["4"]]);
}

/// PBX-010
#[test]
fn nothing_is_sent_past_a_place_that_is_missing() {
    let (verdicts, sent) = delivered(&[("a", "1"), ("missing", "2"), ("missing", "3"), ("a", "4")]);
    assert_eq!(verdicts, ["accepted", "unavailable", "skipped", "skipped"]);
    assert_eq!(sent, [vec!["1"], vec!["2", "3"]]);
}

/// PBX-010, PBX-018
#[test]
fn what_was_taken_after_a_failure_counts_as_not_tried() {
    let (verdicts, _) = delivered(&[("a", "1"), ("a", "bad"), ("a", "3")]);
    assert_eq!(verdicts, ["accepted", "unavailable", "skipped"]);
}

/// PBX-018
#[test]
fn an_event_that_can_not_be_sent_lets_those_before_it_go() {
    let (verdicts, sent) = delivered(&[("a", "1"), ("large", "2"), ("a", "3")]);
    assert_eq!(verdicts, ["accepted", "rejected", "skipped"]);
    assert_eq!(sent, [vec!["1"]]);
    let (verdicts, sent) = delivered(&[("a", "bad"), ("large", "2")]);
    assert_eq!((verdicts, sent.len()), (vec!["unavailable", "skipped"], 1));
}

#[test]
fn text_of_a_broker_is_short_and_on_one_line() {
    assert_eq!(said("a\r\nb"), "a  b");
    assert_eq!(said(&"ü".repeat(1_000)).chars().count(), 300);
}
