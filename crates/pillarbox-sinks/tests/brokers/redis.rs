//! Redis Streams.

use std::collections::BTreeMap;
use std::process::Command;

use redis::Commands as _;
use redis::streams::StreamRangeReply;

use super::checks;
use super::events::{CANARY, Got, error, sink, three, typed, unique, words};
use super::server::{Server, variable};

const URL: &str = "PILLARBOX_TEST_REDIS_URL";
const PROGRAM: &str = "PILLARBOX_TEST_REDIS_SERVER";

fn connection(url: &str) -> redis::Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

/// Everything in the stream; fields that are headers without their prefix.
fn read(url: &str, stream: &str) -> Vec<Got> {
    let entries: StreamRangeReply = connection(url).xrange_all(stream).unwrap();
    let got = entries.ids.into_iter().map(|entry| {
        let mut fields: BTreeMap<String, Vec<u8>> = entry
            .map
            .iter()
            .map(|(name, value)| {
                (
                    name.strip_prefix("header:").unwrap_or(name).to_owned(),
                    redis::from_redis_value_ref(value).unwrap(),
                )
            })
            .collect();
        let body = fields.remove("payload").unwrap();
        let text = |(name, value): (String, Vec<u8>)| (name, String::from_utf8(value).unwrap());
        let headers: BTreeMap<_, _> = fields.into_iter().map(text).collect();
        Got { body, key: headers["id"].clone(), headers }
    });
    got.collect()
}

fn server(settings: &'static [&'static str]) -> Option<Server> {
    let program = variable(PROGRAM, "a redis of a test's own")?;
    Some(Server::new("Ready to accept connections", move |data, port| {
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]).arg(data);
        command.args(settings);
        command
    }))
}

/// PBX-010, PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn redis_gets_the_bytes_in_order_with_headers_and_trace() {
    let Some(url) = variable(URL, "the sink for redis") else { return };
    let stream = unique("s");
    let sink = sink(&format!("{url}?stream={stream}:{{tenant|none}}&maxlen=1000"));
    let mut sent = three("g");
    assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
    let traced = sent.pop().unwrap();
    let mut got = read(&url, &format!("{stream}:none"));
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].key.as_str(), got[0].header("group")), (sent[0].event.id().as_str(), "g"));
    got.extend(read(&url, &format!("{stream}:t-1")));
    sent.push(traced);
    checks::carried_raw(&sent, &got);
}

/// PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn redis_gets_cloud_events_in_both_modes() {
    let Some(url) = variable(URL, "the sink for redis") else { return };
    let sent = three("g");
    for format in ["cloudevents", "cloudevents-binary"] {
        let stream = unique("s");
        let sink = sink(&format!("{url}?stream={stream}&format={format}"));
        assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
        let got = read(&url, &stream);
        match format {
            "cloudevents" => checks::carried_structured(&sent, &got),
            _ => checks::carried_binary(&sent, &got, "ce_"),
        }
    }
}

/// PBX-010, PBX-157
#[tokio::test(flavor = "multi_thread")]
async fn redis_whose_key_is_no_stream_is_the_fault_of_the_event_that_named_it() {
    let Some(url) = variable(URL, "the sink for redis") else { return };
    let stream = unique("s");
    let _: () = connection(&url).set(format!("{stream}:b"), "text").unwrap();
    let by_type = sink(&format!("{url}?stream={stream}:{{type}}"));
    let verdicts = by_type.deliver(&[typed("a", "g"), typed("b", "g"), typed("a", "g")]).await;
    assert_eq!(words(&verdicts), ["accepted", "rejected", "skipped"]);
    assert!(error(&verdicts).contains("WRONGTYPE"), "{}", error(&verdicts));
    assert_eq!(read(&url, &format!("{stream}:a")).len(), 1);
    let by_operator = sink(&format!("{url}?stream={stream}:b"));
    assert_eq!(words(&by_operator.deliver(&[typed("a", "g")]).await), ["unavailable"]);
}

/// PBX-156
#[test]
fn redis_streams_that_an_event_alone_names_are_refused() {
    let open = |stream: &str| {
        let url = format!("redis://127.0.0.1/0?stream={stream}");
        pillarbox_sinks::open(&url, &pillarbox_sinks::SinkOptions::default())
    };
    let refused = open("{type}:events").err().unwrap().to_string();
    assert!(refused.contains("events:{type}"), "{refused}");
    assert!(open("events:{type}").is_ok() && open("events").is_ok());
}

/// PBX-018
#[tokio::test(flavor = "multi_thread")]
async fn redis_without_memory_or_replicas_is_unavailable_and_takes_all_or_none() {
    let Some(server) = server(&["--maxmemory", "4mb", "--maxmemory-policy", "noeviction"]) else { return };
    let url = format!("redis://127.0.0.1:{}", server.port);
    let full = sink(&format!("{url}/0?stream=s"));
    let batch: Vec<_> = (0..30).map(|_| super::events::sized("a", "g", 100_000)).collect();
    let mut taken = 0;
    let verdicts = loop {
        let verdicts = full.deliver(&batch).await;
        if words(&verdicts)[0] != "accepted" {
            break verdicts;
        }
        taken += batch.len();
        assert!(taken < 1_000, "memory has no end");
    };
    assert_eq!(words(&verdicts)[..2], ["unavailable", "skipped"]);
    assert!(
        error(&verdicts).contains("OOM") || error(&verdicts).contains("EXECABORT"),
        "{}",
        error(&verdicts)
    );
    assert_eq!(read(&url, "s").len(), taken);
    let mut connection = connection(&url);
    let _: () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
    let options =
        pillarbox_sinks::SinkOptions { timeout: std::time::Duration::from_secs(2), ..Default::default() };
    let waiting = pillarbox_sinks::open(&format!("{url}/0?stream=s&wait=1"), &options).unwrap();
    let verdicts = waiting.deliver(&[typed("a", "g")]).await;
    assert_eq!(words(&verdicts), ["unavailable"]);
    assert!(error(&verdicts).contains("0 of 1 replicas"), "{}", error(&verdicts));
}

/// PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn redis_that_refuses_the_password_or_is_down_is_told_without_it() {
    let Some(mut server) = server(&["--requirepass", "right"]) else { return };
    let url = format!("redis://:{CANARY}@127.0.0.1:{}/0?stream=s", server.port);
    checks::refused_without_the_password(&*sink(&url)).await;
    let right = format!("redis://:right@127.0.0.1:{}/0?stream=s", server.port);
    assert_eq!(words(&sink(&right).deliver(&[typed("a", "g")]).await), ["accepted"]);
    server.kill();
    checks::refused_without_the_password(&*sink(&url)).await;
}

/// PBX-010, RLY-031
#[tokio::test(flavor = "multi_thread")]
async fn redis_loses_nothing_and_keeps_order_over_a_restart() {
    // With `everysec` a write may be answered up to two seconds before it is in the file, while the disk is busy.
    let Some(mut server) = server(&["--appendonly", "yes", "--appendfsync", "always"]) else { return };
    let url = format!("redis://127.0.0.1:{}/0", server.port);
    assert!(
        checks::deliver_over_a_restart(sink(&format!("{url}?stream=s")), &mut server, async || true).await
    );
    checks::complete_and_in_order(read(&url, "s").into_iter().map(|got| got.body));
}

/// PBX-013
#[tokio::test(flavor = "multi_thread")]
async fn redis_takes_more_at_once_than_may_wait() {
    let Some(url) = variable(URL, "the sink for redis") else { return };
    checks::many_at_once(sink(&format!("{url}?stream={}", unique("s")))).await;
}
