//! NATS JetStream.

use std::process::Command;

use async_nats::jetstream::{self, consumer, stream};
use futures_util::StreamExt as _;

use super::checks;
use super::events::{CANARY, Got, error, sink, sized, three, typed, unique, words};
use super::server::{Server, variable};

const URL: &str = "PILLARBOX_TEST_NATS_URL";
const PROGRAM: &str = "PILLARBOX_TEST_NATS_SERVER";

/// A certificate that no server has.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBiTCCAS+gAwIBAgIUO47PFNX0XWx41B8DxXL5d5W3B9wwCgYIKoZIzj0EAwIw\n\
GTEXMBUGA1UEAwwOcGlsbGFyYm94IHRlc3QwIBcNMjYxMTE4MDExNTM1WhgPMjEy\n\
NjEwMjUwMTE1MzVaMBkxFzAVBgNVBAMMDnBpbGxhcmJveCB0ZXN0MFkwEwYHKoZI\n\
zj0CAQYIKoZIzj0DAQcDQgAE7Zqqe7PcIfcP2sAnlCQukemWA47TIqs7TOM8vh2Y\n\
5wUwMVf4zfyRHPrXF3gYJLXivjTm9W44rETfCiCcjdJWp6NTMFEwHQYDVR0OBBYE\n\
FKnzn27e/A6W/TCrG9uGz1Ht8loIMB8GA1UdIwQYMBaAFKnzn27e/A6W/TCrG9uG\n\
z1Ht8loIMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgFOObo77S\n\
lTeDSQl7NNDexLdlodeiN4r4HN2uNEZYi8ACIQD4TTmHZasxe4RgSowCzIutBunW\n\
F8fW73rPfNqOFhzVHg==\n\
-----END CERTIFICATE-----\n\n";

/// A stream of its own for a test.
struct Stream {
    stream: stream::Stream,
    name: String,
}

impl Stream {
    async fn make(url: &str, config: stream::Config) -> Self {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        let name = unique("s");
        let config = stream::Config { name: name.clone(), subjects: vec![format!("{name}.>")], ..config };
        Self { stream: context.create_stream(config).await.unwrap(), name }
    }

    /// The subject of each message.
    async fn subjects(&self) -> Vec<String> {
        let count = self.stream.get_info().await.unwrap().state.messages;
        let mut subjects = Vec::new();
        for seq in 1..=count {
            subjects.push(self.stream.get_raw_message(seq).await.unwrap().subject.to_string());
        }
        subjects
    }

    async fn read(&self) -> Vec<Got> {
        let count = self.stream.get_info().await.unwrap().state.messages as usize;
        let config = consumer::pull::Config { ack_policy: consumer::AckPolicy::None, ..Default::default() };
        let messages = self.stream.create_consumer(config).await.unwrap().messages().await.unwrap();
        let got = messages.take(count).map(|message| {
            let message = message.unwrap();
            let headers = message.headers.clone().unwrap_or_default();
            let first = |values: &Vec<async_nats::HeaderValue>| values[0].as_str().to_owned();
            let headers: std::collections::BTreeMap<_, _> = headers
                .iter()
                .map(|(name, values)| (name.to_string().to_lowercase(), first(values)))
                .collect();
            Got { body: message.payload.to_vec(), key: headers["nats-msg-id"].clone(), headers }
        });
        got.collect().await
    }
}

fn server() -> Option<Server> {
    let program = variable(PROGRAM, "a restart of nats")?;
    Some(Server::new("Server is ready", move |data, port| {
        let mut command = Command::new(&program);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--jetstream", "--store_dir"]);
        command.arg(data);
        command
    }))
}

/// PBX-010, PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn nats_gets_the_bytes_in_order_with_headers_and_trace() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let stream = Stream::make(&url, stream::Config::default()).await;
    let sink = sink(&format!("{url}/{}.{{type}}", stream.name));
    let sent = three("g");
    assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
    let got = stream.read().await;
    checks::carried_raw(&sent, &got);
    assert_eq!(got[0].key, sent[0].event.id().as_str());
    // Within the window of deduplication the stream drops what it has.
    assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
    assert_eq!(stream.read().await.len(), 3);
}

/// PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn nats_gets_cloud_events_in_both_modes() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let sent = three("g");
    for format in ["cloudevents", "cloudevents-binary"] {
        let stream = Stream::make(&url, stream::Config::default()).await;
        let sink = sink(&format!("{url}/{}.{{tenant|none}}?format={format}", stream.name));
        for delivery in &sent {
            assert_eq!(words(&sink.deliver(std::slice::from_ref(delivery)).await), ["accepted"]);
        }
        let got = stream.read().await;
        match format {
            "cloudevents" => checks::carried_structured(&sent, &got),
            _ => checks::carried_binary(&sent, &got, "ce-"),
        }
    }
}

/// PBX-010, PBX-018
#[tokio::test(flavor = "multi_thread")]
async fn nats_refuses_a_message_that_is_too_large_and_takes_those_before_it_only() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let small = stream::Config { max_message_size: 1_000, ..Default::default() };
    for (config, bytes) in [(stream::Config::default(), 2 * 1024 * 1024), (small, 5_000)] {
        let stream = Stream::make(&url, config).await;
        let sink = sink(&format!("{url}/{}.x", stream.name));
        let batch = [sized("a", "g", 10), sized("a", "g", bytes), sized("a", "g", 10)];
        let verdicts = sink.deliver(&batch).await;
        assert_eq!(words(&verdicts), ["accepted", "rejected", "skipped"], "{}", error(&verdicts));
        let sizes: Vec<_> = stream.read().await.iter().map(|got| got.body.len()).collect();
        assert_eq!(sizes, [10], "nothing overtakes what was refused");
    }
}

/// PBX-010, PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn nats_without_a_stream_is_unavailable_and_nothing_goes_past() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let stream = Stream::make(&url, stream::Config::default()).await;
    let sink = sink(&format!("{url}/{{header:to|{}}}.{{type}}", stream.name));
    let missing = pillarbox::Event::text("a", "{}").group("g").header("to", unique("none")).build().unwrap();
    let batch = [typed("a", "g"), super::events::delivery(missing), typed("a", "g")];
    let verdicts = sink.deliver(&batch).await;
    assert_eq!(words(&verdicts), ["accepted", "unavailable", "skipped"]);
    assert!(error(&verdicts).contains("create one"), "{}", error(&verdicts));
    assert_eq!(stream.read().await.len(), 1);
}

/// PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn nats_subjects_of_the_server_itself_are_not_published_to() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let sink = sink(&format!("{url}/{{type}}"));
    for own in ["$JS.API.STREAM.NAMES", "_INBOX.a", "a..b", ".a"] {
        let event = pillarbox::Event::text(own.to_owned(), "{}").build().unwrap();
        assert_eq!(words(&sink.deliver(&[super::events::delivery(event)]).await), ["rejected"], "{own}");
    }
}

/// PBX-156: dots of a value make no tokens, unless the template says so; those of a type do.
#[tokio::test(flavor = "multi_thread")]
async fn nats_values_stay_within_their_token() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let stream = Stream::make(&url, stream::Config::default()).await;
    let event = |tenant: &str| {
        let event = pillarbox::Event::text("order.placed", "{}").tenant(tenant.to_owned());
        super::events::delivery(event.build().unwrap())
    };
    for (template, tenant) in [
        ("{tenant}.{type}", "victim.created"),
        ("{tenant:raw}.{type}", "eu.acme"),
        ("{header:none|a.b}.{type}", "acme"),
    ] {
        let sink = sink(&format!("{url}/{}.{template}", stream.name));
        assert_eq!(words(&sink.deliver(&[event(tenant)]).await), ["accepted"]);
    }
    let subjects: Vec<String> = stream.subjects().await;
    let expected = ["victim_created.order.placed", "eu.acme.order.placed", "a.b.order.placed"];
    assert_eq!(subjects, expected.map(|subject| format!("{}.{subject}", stream.name)));
}

/// PBX-152: certificates that are named are checked, so a server without TLS is refused.
#[tokio::test(flavor = "multi_thread")]
async fn nats_with_a_file_of_certificates_needs_tls() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let stream = Stream::make(&url, stream::Config::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, CERTIFICATE).unwrap();
    let options = pillarbox_sinks::SinkOptions {
        ca_file: Some(ca_file),
        connect_timeout: std::time::Duration::from_secs(2),
        ..Default::default()
    };
    let sink = pillarbox_sinks::open(&format!("{url}/{}.x", stream.name), &options).unwrap();
    assert_eq!(words(&sink.deliver(&[typed("a", "g")]).await), ["unavailable"]);
    assert_eq!(stream.read().await.len(), 0);
}

/// PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn nats_that_refuses_the_password_or_is_down_is_told_without_it() {
    let Some(program) = variable(PROGRAM, "a nats with a password") else { return };
    let mut server = Server::new("Server is ready", move |_, port| {
        let mut command = Command::new(&program);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--user", "me", "--pass", "right"]);
        command
    });
    let url = format!("nats://me:{CANARY}@127.0.0.1:{}/a", server.port);
    checks::refused_without_the_password(&*sink(&url)).await;
    server.kill();
    checks::refused_without_the_password(&*sink(&url)).await;
}

/// RLY-042: nothing is connected to.
#[tokio::test]
async fn nats_gets_no_part_of_a_token_file_that_is_too_long() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, told) in [(16 * 1_024 + 1, "more than 16384 bytes"), (0, "empty")] {
        let file = folder.path().join("token");
        std::fs::write(&file, "x".repeat(bytes)).unwrap();
        let token = Some(pillarbox_sinks::TokenSource::File(file));
        let options = pillarbox_sinks::SinkOptions { token, ..Default::default() };
        let sink = pillarbox_sinks::open("nats://127.0.0.1:1/a", &options).unwrap();
        let verdicts = sink.deliver(&[typed("a", "g")]).await;
        assert_eq!(words(&verdicts), ["unavailable"]);
        assert!(error(&verdicts).contains(told), "{}", error(&verdicts));
    }
}

/// PBX-010, RLY-031
#[tokio::test(flavor = "multi_thread")]
async fn nats_loses_nothing_and_keeps_order_over_a_restart() {
    let Some(mut server) = server() else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let stream = Stream::make(&url, stream::Config::default()).await;
    let sink = sink(&format!("{url}/{}.{{group}}", stream.name));
    assert!(checks::deliver_over_a_restart(sink, &mut server, async || true).await);
    checks::complete_and_in_order(stream.read().await.into_iter().map(|got| got.body));
}

/// PBX-013
#[tokio::test(flavor = "multi_thread")]
async fn nats_takes_more_at_once_than_may_wait() {
    let Some(url) = variable(URL, "the sink for nats") else { return };
    let stream = Stream::make(&url, stream::Config::default()).await;
    checks::many_at_once(sink(&format!("{url}/{}.x", stream.name))).await;
}

/// PBX-010
#[tokio::test(flavor = "multi_thread")]
async fn nats_that_is_lost_takes_nothing_along_to_the_next_connection() {
    const SOON: std::time::Duration = std::time::Duration::from_secs(15);
    let Some(mut server) = server() else { return };
    let url = format!("nats://127.0.0.1:{}", server.port);
    let stream = Stream::make(&url, stream::Config::default()).await;
    let sink = sink(&format!("{url}/{}.x", stream.name));
    assert_eq!(words(&sink.deliver(&[sized("a", "g", 1)]).await), ["accepted"]);
    server.kill();
    // A client that waits for its server would hold it back, and send it when others have been lost.
    let lost = [sized("a", "g", 2)];
    let verdicts = tokio::time::timeout(SOON, sink.deliver(&lost)).await.unwrap();
    assert_eq!(words(&verdicts), ["unavailable"]);
    server.start();
    let mut tries = (0..5).map(|_| [sized("a", "g", 3)]);
    while words(&sink.deliver(&tries.next().unwrap()).await) != ["accepted"] {}
    let sizes: Vec<_> = stream.read().await.iter().map(|got| got.body.len()).collect();
    assert_eq!(sizes, [1, 3]);
}
