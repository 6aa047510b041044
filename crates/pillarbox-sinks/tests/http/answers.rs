//! Answers item by item, and answers that only look so.

use pillarbox::port::Verdict;
use pillarbox_sinks::{Answers, KeepAnswers, SinkOptions};
use serde_json::{Value, json};
use tracing::Level;

use crate::kit::{Endpoint, Reply, batch, error, kinds, options, send, sink};
use crate::logs::Logs;

async fn answered(status: u16, body: impl Into<String>) -> Vec<Verdict> {
    let endpoint = Endpoint::start([Reply::new(status).body(body)]).await;
    send(&endpoint.url(), &batch(3)).await
}

async fn judged(body: Value) -> Vec<&'static str> {
    kinds(&answered(200, body.to_string()).await)
}

/// PBX-018
#[tokio::test]
async fn results_are_read_by_position() {
    let expected = ["accepted", "failed", "accepted"];
    for results in [
        json!([{"status": 200}, {"status": 422}, {"status": 201}]),
        json!([{"status": "ok"}, {"status": "ERROR"}, {"status": "QUEUED"}]),
        json!([{"success": true}, {"success": false}, {"success": true}]),
        json!([{"error": null}, {"error": "no"}, {"error": ""}]),
        json!([null, {"error": {"message": "no"}}, {}]),
        json!([{"status": 200, "id": "x"}, {"status": 409, "id": "y"}, {"status": 200, "id": "z"}]),
        json!([{"status": 200}, {"status": 200, "error": "no"}, {"status": 200}]),
    ] {
        assert_eq!(judged(results.clone()).await, expected, "{results}");
        assert_eq!(judged(json!({"results": results})).await, expected, "{results}");
        assert_eq!(judged(json!({"items": results, "took": 3})).await, expected, "{results}");
        assert_eq!(kinds(&answered(207, results.to_string()).await), expected, "{results}");
    }
}

/// PBX-018
#[tokio::test]
async fn results_are_read_by_id_where_all_carry_ours() {
    let results = json!([
        {"id": "e2", "status": 400, "error": "second"},
        {"id": "e0", "status": 200},
        {"id": "e1", "status": 413},
    ]);
    let verdicts = answered(200, results.to_string()).await;
    assert_eq!(kinds(&verdicts), ["accepted", "rejected", "failed"]);
    assert_eq!(error(&verdicts[2]), "the endpoint refused the event with status 400\nsecond");
}

/// PBX-018
#[tokio::test]
async fn words_for_the_endpoints_own_trouble_burn_no_attempt() {
    for status in ["INTERNAL_ERROR", "UNAUTHORIZED", "GATEWAY_ERROR", "timeout", "RateLimited", "503"] {
        let results = json!([{"status": "ok"}, {"status": status}, {"status": "ok"}]);
        assert_eq!(judged(results).await, ["accepted", "unavailable", "accepted"], "{status}");
    }
    for code in [401, 408, 429, 500, 503] {
        let results = json!([{"success": true}, {"status": code, "error": "no"}, {"success": true}]);
        assert_eq!(judged(results).await, ["accepted", "unavailable", "accepted"], "{code}");
    }
}

/// PBX-018
#[tokio::test]
async fn a_status_nobody_knows_is_never_taken_for_success() {
    for status in [json!("QUARANTINED"), json!(""), json!("not ok"), json!(7), json!(true), json!({})] {
        let results = json!([{"status": "ok"}, {"status": status}, {"status": "ok"}]);
        assert_eq!(judged(results.clone()).await, ["accepted", "unavailable", "accepted"], "{results}");
    }
    let results = json!([{"status": "QUARANTINED", "message": "later"}, {"status": "ok"}, {"status": "ok"}]);
    let verdicts = answered(200, results.to_string()).await;
    assert_eq!(
        error(&verdicts[0]),
        "the endpoint answered for the event with the unknown status \"quarantined\"\nlater"
    );
    // A plain yes or no beside the word counts.
    let results = json!([
        {"status": "QUARANTINED", "success": true},
        {"status": "DUPLICATE", "success": false},
        {"status": null},
    ]);
    assert_eq!(judged(results).await, ["accepted", "failed", "accepted"]);
}

/// PBX-018
#[tokio::test]
async fn a_word_nobody_knows_is_logged_once_with_the_setting() {
    let results = json!([{"status": "QUARANTINED"}, {"status": "QUARANTINED"}]).to_string();
    let reply = || Reply::new(200).body(results.clone());
    let endpoint = Endpoint::start([reply(), reply()]).await;
    let logs = Logs::capture();
    let sink = sink(&endpoint.url(), &options());
    for _ in 0..2 {
        assert_eq!(kinds(&sink.deliver(&batch(2)).await), ["unavailable"; 2]);
    }
    assert!(logs.has(Level::WARN, "by-status"), "{:?}", logs.all());
    let told = logs.all().iter().filter(|(_, line)| line.contains("quarantined")).count();
    assert_eq!(told, 1, "{:?}", logs.all());
}

/// PBX-018
#[tokio::test]
async fn results_that_do_not_fit_retry_all() {
    let ok = || json!({"status": 200});
    let of = |id: &str| json!({"status": 200, "id": id});
    for results in [
        json!([ok(), ok()]),
        json!([ok(), ok(), ok(), ok()]),
        json!([of("e0"), of("e1"), of("other")]),
        json!([of("e0"), of("e0"), of("e1")]),
    ] {
        assert_eq!(judged(results.clone()).await, ["unavailable"; 3], "{results}");
    }
    let verdicts = answered(200, json!({"results": [ok()]}).to_string()).await;
    assert_eq!(error(&verdicts[0]), "the endpoint answered 200, but the answer has 1 results for 3 events");
}

/// PBX-018
#[tokio::test]
async fn a_body_that_is_no_answer_item_by_item_accepts_all() {
    for body in [
        "",
        "ok",
        "<html></html>",
        "[1,",
        "{\"results\":",
        "\u{0}\u{1}\u{2}",
        "[]",
        "{}",
        "[1,2]",
        "{\"results\":{}}",
        "{\"status\":\"error\"}",
        "[{\"name\":\"a\"}]",
        "[{\"status\":7},{\"status\":7}]",
        "[{\"success\":\"no\"}]",
        "{\"items\":[]}",
        "null",
    ] {
        assert_eq!(kinds(&answered(200, body).await), ["accepted"; 3], "{body}");
    }
    let deep = "[".repeat(10_000);
    assert_eq!(kinds(&answered(200, deep).await), ["accepted"; 3]);
}

/// PBX-018
#[tokio::test]
async fn a_207_that_does_not_tell_which_retries_all() {
    for body in ["", "rubbish", "[]", "<multistatus/>"] {
        assert_eq!(kinds(&answered(207, body).await), ["unavailable"; 3], "{body}");
    }
}

/// PBX-018
#[tokio::test]
async fn by_status_alone_bodies_are_not_looked_at() {
    let body = json!([{"success": false}]).to_string();
    let endpoint = Endpoint::start([Reply::new(200).body(body)]).await;
    let options = SinkOptions { answers: Answers::ByStatus, ..options() };
    assert_eq!(kinds(&sink(&endpoint.url(), &options).deliver(&batch(3)).await), ["accepted"; 3]);
}

/// PBX-153: only the first line of an error is logged.
#[tokio::test]
async fn what_an_endpoint_says_is_below_the_first_line_or_nowhere() {
    const SAID: &str = "cannot take card 4711";
    let item = json!([{"status": 422, "error": SAID}]).to_string();
    for (status, body) in [(400, SAID), (413, SAID), (500, SAID), (429, SAID), (200, &item)] {
        for keep_answers in [KeepAnswers::Text, KeepAnswers::None] {
            let endpoint = Endpoint::start([Reply::new(status).body(body)]).await;
            let options = SinkOptions { keep_answers, ..options() };
            let verdicts = sink(&endpoint.url(), &options).deliver(&batch(1)).await;
            let lines: Vec<&str> = error(&verdicts[0]).lines().collect();
            assert!(lines[0].contains("answered") || lines[0].contains("422"), "{lines:?}");
            assert!(!lines[0].contains("4711"), "{lines:?}");
            match keep_answers {
                KeepAnswers::Text => assert_eq!(lines[1..], [SAID], "{status}"),
                KeepAnswers::None => assert_eq!(lines.len(), 1, "{status}"),
            }
        }
    }
}

/// PBX-023
#[tokio::test]
async fn errors_of_items_are_short_and_clean() {
    let long = format!("bad\u{0}\n{}", "x".repeat(5_000));
    let results = json!([{"error": long}, {"error": null}, {"error": null}]);
    let verdicts = answered(200, results.to_string()).await;
    let (first, quoted) = error(&verdicts[0]).split_once('\n').unwrap();
    assert_eq!(first, "the endpoint refused the event");
    assert!(quoted.starts_with("bad xxx") && quoted.len() < 1_200, "{quoted}");
    assert!(!quoted.contains(char::is_control));
}
