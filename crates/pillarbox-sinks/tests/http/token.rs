//! The bearer token: sent, read again when refused, shown to nobody.

use std::io::Write as _;

use pillarbox_sinks::{Secret, SinkError, SinkOptions, TokenSource};
use tempfile::NamedTempFile;

use crate::kit::{Endpoint, Reply, batch, error, kinds, options, sink};

fn file(token: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    writeln!(file, " {token} ").unwrap();
    file
}

fn with(token: TokenSource) -> SinkOptions {
    SinkOptions { token: Some(token), ..options() }
}

fn authorizations(endpoint: &Endpoint) -> Vec<String> {
    endpoint.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect()
}

/// RLY-041
#[tokio::test]
async fn the_token_is_sent() {
    let endpoint = Endpoint::start([]).await;
    let file = file("f1");
    sink(&endpoint.url(), &with(TokenSource::Text(Secret::new("t1")))).deliver(&batch(1)).await;
    sink(&endpoint.url(), &with(TokenSource::File(file.path().into()))).deliver(&batch(1)).await;
    assert_eq!(authorizations(&endpoint), ["Bearer t1", "Bearer f1"]);
}

/// RLY-041
#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_is_refused() {
    let endpoint =
        Endpoint::start([Reply::new(200), Reply::new(401), Reply::new(200), Reply::new(401)]).await;
    let file = file("old");
    let sink = sink(&endpoint.url(), &with(TokenSource::File(file.path().into())));
    assert_eq!(kinds(&sink.deliver(&batch(1)).await), ["accepted"]);
    std::fs::write(file.path(), "new").unwrap();
    assert_eq!(kinds(&sink.deliver(&batch(1)).await), ["accepted"]);
    assert_eq!(authorizations(&endpoint), ["Bearer old", "Bearer old", "Bearer new"]);
    assert_eq!(kinds(&sink.deliver(&batch(1)).await), ["unavailable"], "the file has no other token");
    assert_eq!(endpoint.seen().len(), 4);
    assert_eq!(kinds(&sink.deliver(&batch(1)).await), ["accepted"]);
}

/// RLY-041
#[tokio::test]
async fn two_tokens_refused_are_the_endpoints_fault() {
    let endpoint = Endpoint::start([Reply::new(200), Reply::new(401), Reply::new(401)]).await;
    let file = file("old");
    let sink = sink(&endpoint.url(), &with(TokenSource::File(file.path().into())));
    sink.deliver(&batch(1)).await;
    std::fs::write(file.path(), "newer").unwrap();
    assert_eq!(kinds(&sink.deliver(&batch(2)).await), ["unavailable"; 2]);
    assert_eq!(authorizations(&endpoint), ["Bearer old", "Bearer old", "Bearer newer"]);
}

/// RLY-042
#[tokio::test]
async fn a_token_file_that_can_not_be_read_burns_no_attempt() {
    let endpoint = Endpoint::start([]).await;
    let gone = TokenSource::File("no/such/file".into());
    let verdicts = sink(&endpoint.url(), &with(gone)).deliver(&batch(1)).await;
    assert_eq!(kinds(&verdicts), ["unavailable"]);
    assert!(error(&verdicts[0]).contains("token file can't be read"), "{verdicts:?}");
    assert!(endpoint.seen().is_empty());
}

/// PBX-152: nothing is connected to.
#[test]
fn secrets_go_out_without_tls_to_this_machine_only() {
    let token = with(TokenSource::Text(Secret::new("s3cret")));
    let proxied = |proxy: &str| SinkOptions { proxy: Some(Secret::new(proxy)), ..options() };
    let refused = [
        ("http://api.example.com", &token, "https"),
        ("http://10.0.0.1/", &token, "https"),
        ("webhook+http://api.example.com/", &token, "https"),
        ("https://api.example.com", &proxied("http://me:s3cret@proxy.example.com:3128"), "https"),
        ("nats://me:s3cret@nats.example.com/s", &options(), "tls://"),
        ("nats://s3cret@nats.example.com/s", &options(), "tls://"),
        ("nats://nats.example.com/s", &token, "tls://"),
        ("nats://me:s3cret@localhost,nats.example.com/s", &options(), "tls://"),
        ("amqp://me:s3cret@mq.example.com/", &options(), "amqps://"),
        ("redis://:s3cret@redis.example.com/0?stream=s", &options(), "rediss://"),
    ];
    for (url, options, instead) in refused {
        let Err(error) = pillarbox_sinks::open(url, options) else { panic!("{url} passed") };
        assert!(matches!(error, SinkError::Cleartext { .. }), "{url}: {error}");
        let text = error.to_string();
        assert!(text.contains(instead) && text.contains("allow-cleartext"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        let allowed = SinkOptions { allow_cleartext: true, ..options.clone() };
        assert!(pillarbox_sinks::open(url, &allowed).is_ok(), "{url}");
    }
    for (url, options) in [
        ("http://localhost:1/", &token),
        ("http://[::1]/", &token),
        ("https://api.example.com", &token),
        ("http://api.example.com", &options()),
        ("https://api.example.com", &proxied("http://proxy.example.com:3128")),
        ("tls://me:s3cret@nats.example.com/s", &options()),
        ("nats://nats.example.com/s", &options()),
        ("amqps://me:s3cret@mq.example.com/", &options()),
        ("amqp://mq.example.com/", &options()),
        ("rediss://:s3cret@redis.example.com/0?stream=s", &options()),
        ("redis://redis.example.com/0?stream=s", &options()),
    ] {
        let opened = pillarbox_sinks::open(url, options).map(drop);
        assert!(opened.is_ok(), "{url}: {opened:?}");
    }
}

/// RLY-042
#[tokio::test]
async fn a_token_file_that_is_too_long_is_not_cut() {
    let endpoint = Endpoint::start([]).await;
    let long = file(&"x".repeat(16 * 1024));
    let verdicts =
        sink(&endpoint.url(), &with(TokenSource::File(long.path().into()))).deliver(&batch(1)).await;
    assert_eq!(kinds(&verdicts), ["unavailable"]);
    assert!(error(&verdicts[0]).contains("more than 16384 bytes"), "{verdicts:?}");
    assert!(endpoint.seen().is_empty());
}

/// PBX-023
#[tokio::test]
async fn an_endpoint_that_repeats_the_token_does_not_bring_it_into_errors() {
    let body = "{\"got\":\"Bearer s3cret-token\"}";
    for status in [400, 401, 500] {
        let endpoint = Endpoint::start([Reply::new(status).body(body)]).await;
        let token = TokenSource::Text(Secret::new("s3cret-token"));
        let verdicts = sink(&endpoint.url(), &with(token)).deliver(&batch(1)).await;
        assert!(error(&verdicts[0]).contains("Bearer ***"), "{verdicts:?}");
        assert!(!error(&verdicts[0]).contains("s3cret"));
    }
    let bad = with(TokenSource::Text(Secret::new("s3cret\n")));
    let refused = pillarbox_sinks::open("http://127.0.0.1/", &bad).err().unwrap().to_string();
    assert!(refused.contains("token") && !refused.contains("s3cret"), "{refused}");
}
