//! Requests of the batch sink: body, paths, headers, compression, HTTP/2.

use std::io::Read as _;

use axum::http::Version;
use pillarbox::Event;
use pillarbox::model::EventBuilder;
use pillarbox_sinks::{Compression, Format, Http2, SinkOptions};
use serde_json::{Value, json};

use crate::kit::{Endpoint, Reply, batch, delivery, event, kinds, options, send, sink};

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// RLY-040
#[tokio::test]
async fn payloads_are_one_array_byte_for_byte_and_in_order() {
    let endpoint = Endpoint::start([]).await;
    let odd =
        [" {\"b\" : 1.50, \"a\":2, \"a\":3} ", "\"\\u00fc\"", "null", "1e400", "[[ ]]", "{\"ü\":\n\"x\"}"];
    let batch: Vec<_> =
        odd.iter().enumerate().map(|(n, json)| delivery(event(&format!("e{n}"), json))).collect();
    assert_eq!(kinds(&send(&endpoint.url(), &batch).await), ["accepted"; 6]);
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, format!("[{}]", odd.join(",")));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
    assert_eq!(seen[0].uri.path(), "/api/events/batch");
}

/// RLY-043, PBX-010
#[tokio::test]
async fn what_is_not_json_is_rejected_alone_and_nothing_goes_past_it() {
    let endpoint = Endpoint::start([]).await;
    let bytes = |id: &str, bytes: &[u8]| Event::bytes("EVENT", bytes).id(id).group("g");
    let mut batch: Vec<_> = [
        event("e0", "{\"a\":1"),
        event("e1", "1"),
        event("e2", ""),
        event("e3", "{} {}"),
        bytes("e4", b"[2]"),
        event("e5", "3"),
        bytes("e6", b"\"\xff\""),
        event("e7", "NaN"),
    ]
    .map(delivery)
    .into();
    let sink = sink(&endpoint.url(), &options());
    for expected in [
        ["rejected", "skipped", "skipped"].as_slice(),
        &["accepted", "rejected", "skipped"],
        &["rejected", "skipped", "skipped"],
        &["accepted", "accepted", "rejected"],
        &["rejected"],
    ] {
        let verdicts = sink.deliver(&batch).await;
        assert_eq!(kinds(&verdicts)[..expected.len()], *expected);
        let judged = expected.iter().take_while(|kind| **kind != "skipped").count();
        assert!(kinds(&verdicts)[judged..].iter().all(|kind| *kind == "skipped"));
        batch.drain(..judged);
    }
    assert!(batch.is_empty());
    let bodies: Vec<_> = endpoint.seen().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(bodies, ["[1]", "[[2],3]"]);
    assert_eq!(endpoint.seen()[1].header("pillarbox-event-ids"), Some("e4,e5"));
}

/// PBX-010
#[tokio::test]
async fn an_event_that_can_not_be_sent_waits_for_those_before_it() {
    let endpoint = Endpoint::start([Reply::new(503)]).await;
    let batch = [event("e0", "1"), event("e1", "rubbish"), event("e2", "2")].map(delivery);
    let verdicts = send(&endpoint.url(), &batch).await;
    assert_eq!(kinds(&verdicts), ["unavailable", "skipped", "skipped"]);
    assert_eq!(endpoint.seen()[0].body, "[1]");
}

/// RLY-005
#[tokio::test]
async fn types_go_to_their_paths_run_by_run_up_to_the_first_failure() {
    let endpoint = Endpoint::start([Reply::new(200), Reply::new(503), Reply::new(200)]).await;
    let job = |id: &str| Event::text("DISPATCH_JOB", "{}").id(id).group("g");
    let batch = [event("e0", "1"), event("e1", "2"), job("e2"), job("e3"), event("e4", "3")].map(delivery);
    let verdicts = send(&format!("{}/base/", endpoint.url()), &batch).await;
    assert_eq!(kinds(&verdicts), ["accepted", "accepted", "unavailable", "unavailable", "skipped"]);
    let paths: Vec<_> = endpoint.seen().iter().map(|seen| seen.uri.path().to_owned()).collect();
    assert_eq!(paths, ["/base/api/events/batch", "/base/api/dispatch/jobs/batch"]);
}

#[tokio::test]
async fn a_template_makes_the_path_and_an_event_that_lacks_a_value_is_rejected() {
    let endpoint = Endpoint::start([]).await;
    let options = SinkOptions { destination: Some("/in/{header:region}/{type}".into()), ..options() };
    let of = |id: &str, region: &str| event(id, "1").header("region", region);
    let sink = sink(&format!("{}?key=1", endpoint.url()), &options);
    let batch = [of("e0", "eu .."), event("e1", "1"), of("e2", "eu")].map(delivery);
    assert_eq!(kinds(&sink.deliver(&batch).await), ["accepted", "rejected", "skipped"]);
    for climbing in ["..", "eu/../x"] {
        assert_eq!(
            kinds(&sink.deliver(&[of("e3", climbing)].map(delivery)).await),
            ["rejected"],
            "{climbing}"
        );
    }
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].uri, "/in/eu%20../EVENT?key=1");
}

#[tokio::test]
async fn a_path_without_places_is_the_same_for_all() {
    let endpoint = Endpoint::start([]).await;
    let options = SinkOptions { destination: Some("/in?a={{b}}".into()), ..options() };
    let job = Event::text("DISPATCH_JOB", "{}").id("e1").group("g");
    let batch = [event("e0", "1"), job].map(delivery);
    assert_eq!(kinds(&sink(&endpoint.url(), &options).deliver(&batch).await), ["accepted"; 2]);
    assert_eq!(endpoint.seen()[0].uri, "/in?a={b}");
    assert_eq!(endpoint.seen().len(), 1);
}

/// PBX-020
#[tokio::test]
async fn requests_carry_ids_key_and_the_first_events_trace() {
    let endpoint = Endpoint::start([]).await;
    let traced =
        |builder: EventBuilder| builder.header("traceparent", TRACEPARENT).header("tracestate", "a=1");
    let batch = [traced(event("e0", "1")), event("a,b ü", "2")].map(delivery);
    send(&endpoint.url(), &batch).await;
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.header("traceparent"), Some(TRACEPARENT));
    assert_eq!(seen.header("tracestate"), Some("a=1"));
    assert_eq!(seen.header("pillarbox-event-ids"), Some("e0,a%2Cb%20%C3%BC"));
    assert_eq!(seen.header("pillarbox-event-count"), Some("2"));
    assert_eq!(seen.header("idempotency-key").unwrap().len(), 32);
    assert_eq!(seen.header("authorization"), None);
}

/// RLY-041
#[tokio::test]
async fn the_idempotency_key_is_the_batchs_own() {
    let endpoint = Endpoint::start([Reply::new(500)]).await;
    let sink = sink(&endpoint.url(), &options());
    let again = batch(3).into_iter().map(|mut delivery| {
        delivery.attempt = 2;
        delivery
    });
    sink.deliver(&batch(3)).await;
    sink.deliver(&again.collect::<Vec<_>>()).await;
    sink.deliver(&batch(2)).await;
    sink.deliver(&[delivery(event("e0e", "1")), delivery(event("1", "1"))]).await;
    sink.deliver(&[delivery(event("e0", "1")), delivery(event("e1", "1"))]).await;
    let keys: Vec<_> =
        endpoint.seen().iter().map(|seen| seen.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[2], keys[4]);
    assert!(keys[0] != keys[2] && keys[2] != keys[3]);
}

/// PBX-162: two outboxes may have events with equal ids.
#[tokio::test]
async fn the_idempotency_keys_of_two_sources_differ() {
    let endpoint = Endpoint::start([]).await;
    for source in ["shop-a", "shop-b", "shop-a", "pillarbox"] {
        let options = SinkOptions { source: source.to_owned(), ..options() };
        sink(&endpoint.url(), &options).deliver(&batch(1)).await;
    }
    let keys: Vec<_> =
        endpoint.seen().iter().map(|seen| seen.header("idempotency-key").unwrap().to_owned()).collect();
    assert!(keys[0] != keys[1] && keys[0] == keys[2] && keys[3] != keys[0], "{keys:?}");
}

#[tokio::test]
async fn a_list_of_ids_that_is_too_long_becomes_first_and_last() {
    let endpoint = Endpoint::start([]).await;
    let long = |n: usize| delivery(event(&format!("{n:036}"), "1"));
    send(&endpoint.url(), &(0..200).map(long).collect::<Vec<_>>()).await;
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.header("pillarbox-event-ids"), None);
    assert_eq!(seen.header("pillarbox-event-count"), Some("200"));
    assert_eq!(seen.header("pillarbox-event-first").unwrap(), format!("{:036}", 0));
    assert_eq!(seen.header("pillarbox-event-last").unwrap(), format!("{:036}", 199));
}

#[tokio::test]
async fn bodies_are_compressed_by_choice_small_and_large() {
    for size in [10, 200_000] {
        let payload = json!("x".repeat(size)).to_string();
        let batch = [delivery(event("e0", &payload))];
        for (compression, name) in [(Compression::Gzip, "gzip"), (Compression::Zstd, "zstd")] {
            let endpoint = Endpoint::start([]).await;
            let options = SinkOptions { compression, ..options() };
            assert_eq!(kinds(&sink(&endpoint.url(), &options).deliver(&batch).await), ["accepted"]);
            let seen = &endpoint.seen()[0];
            assert_eq!(seen.header("content-encoding"), Some(name));
            let mut plain = Vec::new();
            match compression {
                Compression::Gzip => {
                    flate2::read::GzDecoder::new(&*seen.body).read_to_end(&mut plain).unwrap();
                }
                _ => plain = zstd::decode_all(&*seen.body).unwrap(),
            }
            assert_eq!(plain, format!("[{payload}]").as_bytes());
        }
    }
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_known() {
    let endpoint = Endpoint::start([]).await;
    let options = SinkOptions { http2: Http2::PriorKnowledge, ..options() };
    assert_eq!(kinds(&sink(&endpoint.url(), &options).deliver(&batch(2)).await), ["accepted"; 2]);
    assert_eq!(kinds(&send(&endpoint.url(), &batch(2)).await), ["accepted"; 2]);
    let versions: Vec<_> = endpoint.seen().iter().map(|seen| seen.version).collect();
    assert_eq!(versions, [Version::HTTP_2, Version::HTTP_11]);
}

/// PBX-020
#[tokio::test]
async fn cloudevents_go_as_a_batch_each_with_its_own_trace() {
    let endpoint = Endpoint::start([]).await;
    let options = SinkOptions { format: Format::CloudEventsStructured, source: "shop".into(), ..options() };
    let batch = [event("e0", "{\"a\" : 1}").header("traceparent", TRACEPARENT), event("e1", "rubbish")];
    let verdicts = sink(&endpoint.url(), &options).deliver(&batch.map(delivery)).await;
    assert_eq!(kinds(&verdicts), ["accepted"; 2]);
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.header("content-type"), Some("application/cloudevents-batch+json"));
    let body: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(body[0]["traceparent"], TRACEPARENT);
    assert_eq!((&body[0]["source"], &body[0]["data"]), (&json!("shop"), &json!({"a": 1})));
    assert_eq!(body[1]["data_base64"], "cnViYmlzaA==");
    let binary = SinkOptions { format: Format::CloudEventsBinary, ..options };
    assert!(pillarbox_sinks::open(&endpoint.url(), &binary).is_err());
}

#[tokio::test]
async fn an_empty_batch_sends_nothing() {
    let endpoint = Endpoint::start([]).await;
    assert!(send(&endpoint.url(), &[]).await.is_empty());
    assert_eq!(kinds(&send(&endpoint.url(), &[delivery(event("e0", "{"))]).await), ["rejected"]);
    assert!(endpoint.seen().is_empty());
}
