//! Endpoints without manners: silent, endless, broken.

use std::time::Duration;

use pillarbox_sinks::SinkOptions;

use crate::kit::{Endpoint, Manner, Reply, batch, error, hasty, kinds, options, rude, send, sink, soon};

async fn treated(manner: Manner, options: &SinkOptions) -> (Vec<&'static str>, String) {
    let (url, _tasks) = rude(manner).await;
    let verdicts = soon(sink(&url, options).deliver(&batch(2))).await;
    let text = if kinds(&verdicts)[0] == "accepted" { String::new() } else { error(&verdicts[0]).to_owned() };
    (kinds(&verdicts), text)
}

/// RLY-041
#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_unavailable_after_the_timeout() {
    let (kinds, error) = treated(Manner::Silent, &hasty()).await;
    assert_eq!(kinds, ["unavailable"; 2]);
    assert_eq!(error, "no answer in 500ms");
    let defaults = SinkOptions::default();
    assert_eq!(defaults.connect_timeout, Duration::from_secs(10));
    assert_eq!(defaults.timeout, Duration::from_secs(30));
}

/// RLY-042
#[tokio::test]
async fn a_connection_that_breaks_is_the_endpoints_fault() {
    for manner in [
        Manner::Closes,
        Manner::Says("rubbish\r\n\r\n"),
        Manner::Says("HTTP/1.1 abc\r\n\r\n"),
        Manner::Says("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"),
        Manner::Says("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    ] {
        assert_eq!(treated(manner, &options()).await.0, ["unavailable"; 2], "{manner:?}");
    }
}

/// PBX-018
#[tokio::test]
async fn an_endless_answer_is_cut() {
    let rubbish = Manner::Endless("HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(treated(rubbish, &options()).await.0, ["accepted"; 2]);
    let (kinds, error) = treated(Manner::Endless("HTTP/1.1 200 OK\r\n\r\n[{\"error\":\""), &options()).await;
    assert_eq!(kinds, ["unavailable"; 2]);
    assert!(error.contains("too long"), "{error}");
    let (kinds, error) = treated(Manner::Endless("HTTP/1.1 500 Oh\r\n\r\n"), &options()).await;
    assert_eq!(kinds, ["unavailable"; 2]);
    assert!(error.len() < 1_200);
    let header = Manner::Endless("HTTP/1.1 200 OK\r\nx: ");
    assert_eq!(treated(header, &options()).await.0, ["unavailable"; 2]);
}

/// PBX-018
#[tokio::test]
async fn an_answer_that_stops_half_way_retries_all() {
    let half = Manner::Stalls("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[{\"status\":200}");
    let (kinds, error) = treated(half, &hasty()).await;
    assert_eq!(kinds, ["unavailable"; 2]);
    assert!(error.contains("broke off"), "{error}");
}

#[tokio::test]
async fn a_large_answer_of_many_items_is_still_read() {
    let item = format!("{{\"status\":200,\"note\":\"{}\"}}", "x".repeat(900));
    let body = format!("[{}]", vec![item; 200].join(","));
    let endpoint = Endpoint::start([Reply::new(200).body(body)]).await;
    assert_eq!(kinds(&send(&endpoint.url(), &batch(200)).await), ["accepted"; 200]);
}
