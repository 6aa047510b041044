//! Kafka.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};

use super::checks;
use super::events::{CANARY, Got, error, sink, sized, three, typed, unique, words};
use super::server::{Server, variable};

const URL: &str = "PILLARBOX_TEST_KAFKA_URL";
const LIBRARIES: &str = "PILLARBOX_TEST_KAFKA_LIBS";
const RUN: &str = include_str!("../../../../tools/servers/src/kafka/run.sh");
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

async fn make_topic(servers: &str, topic: &str, settings: &[(&str, &str)]) {
    let mut config = ClientConfig::new();
    let admin: AdminClient<DefaultClientContext> = config.set("bootstrap.servers", servers).create().unwrap();
    let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    admin.create_topics(&[topic], &options).await.unwrap()[0].as_ref().unwrap();
}

/// Everything in the topic, partition by partition.
fn read(servers: &str, topic: &str) -> Vec<Got> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "reader");
    let consumer: BaseConsumer = config.create().unwrap();
    let (mut got, begun) = (Vec::new(), Instant::now());
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(topic, partition, PATIENCE).unwrap();
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(topic, partition, Offset::Offset(low)).unwrap();
        consumer.assign(&from).unwrap();
        let mut next = low;
        while next < high {
            assert!(begun.elapsed() < PATIENCE, "the consumer is silent at {next} of {high}");
            // Between messages the consumer hands out events of its own.
            let message = match consumer.poll(PATIENCE) {
                Some(Ok(message)) if message.partition() == partition => message,
                _ => continue,
            };
            next = message.offset() + 1;
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
            let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
            let headers: BTreeMap<_, _> =
                headers.map(|header| (header.key.to_owned(), text(header.value))).collect();
            got.push(Got { body: message.payload().unwrap().to_vec(), headers, key: text(message.key()) });
        }
    }
    got
}

fn server() -> Option<Server> {
    let libraries = variable(LIBRARIES, "a restart of kafka")?;
    Some(Server::new("Kafka Server started", move |data, port| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, "kafka", &libraries]).arg(data).arg(port.to_string());
        shell
    }))
}

/// PBX-010, PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn kafka_gets_the_bytes_in_order_with_headers_and_trace() {
    let Some(servers) = variable(URL, "the sink for kafka") else { return };
    let topic = unique("t");
    make_topic(&servers, &format!("{topic}.order.placed"), &[]).await;
    let sink = sink(&format!("kafka://{servers}/{topic}.{{type}}?option.compression.type=none"));
    let sent = three("g");
    assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
    let got = read(&servers, &format!("{topic}.order.placed"));
    checks::carried_raw(&sent, &got);
    assert!(got.iter().all(|got| got.key == "g"));
    // Without a group the event's id is the key.
    let lone = pillarbox::Event::text("order.placed", "{}").build().unwrap();
    let id = lone.id().as_str().to_owned();
    assert_eq!(words(&sink.deliver(&[super::events::delivery(lone)]).await), ["accepted"]);
    assert!(read(&servers, &format!("{topic}.order.placed")).iter().any(|got| got.key == id));
}

/// PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn kafka_gets_cloud_events_in_both_modes() {
    let Some(servers) = variable(URL, "the sink for kafka") else { return };
    let sent = three("g");
    for format in ["cloudevents", "cloudevents-binary"] {
        let topic = unique("t");
        make_topic(&servers, &topic, &[]).await;
        let sink = sink(&format!("kafka://{servers}/{topic}?format={format}"));
        assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
        let got = read(&servers, &topic);
        match format {
            "cloudevents" => checks::carried_structured(&sent, &got),
            _ => checks::carried_binary(&sent, &got, "ce_"),
        }
    }
}

/// PBX-010, PBX-018
#[tokio::test(flavor = "multi_thread")]
async fn kafka_refuses_a_record_that_is_too_large_and_takes_those_before_it_only() {
    let Some(servers) = variable(URL, "the sink for kafka") else { return };
    let topic = unique("t");
    make_topic(&servers, &topic, &[("max.message.bytes", "20000")]).await;
    let sink = sink(&format!("kafka://{servers}/{topic}"));
    // The client knows a limit of its own, and the topic one that only the broker knows.
    for bytes in [2 * 1024 * 1024, 50_000] {
        let batch = [sized("a", "g", 10), sized("a", "g", bytes), sized("a", "g", 11)];
        let verdicts = sink.deliver(&batch).await;
        assert_eq!(words(&verdicts), ["accepted", "rejected", "skipped"], "{}", error(&verdicts));
    }
    // Together they are too much for the topic, and each alone is not.
    let many: Vec<_> = (0..10).map(|n| sized("a", "g", 9_000 + n)).collect();
    assert_eq!(words(&sink.deliver(&many).await), ["accepted"; 10]);
    let sizes: Vec<_> =
        read(&servers, &topic).iter().map(|got| got.body.len()).filter(|len| *len > 10).collect();
    assert_eq!(sizes, (9_000..9_010).collect::<Vec<_>>(), "nothing overtakes what was refused");
}

/// PBX-010
#[tokio::test(flavor = "multi_thread")]
async fn kafka_without_a_topic_is_unavailable_and_nothing_goes_past() {
    let Some(servers) = variable(URL, "the sink for kafka") else { return };
    let topic = unique("t");
    make_topic(&servers, &format!("{topic}.a"), &[]).await;
    let sink = sink(&format!("kafka://{servers}/{topic}.{{type}}"));
    let verdicts = sink.deliver(&[typed("a", "g"), typed("b", "g"), typed("a", "g")]).await;
    assert_eq!(words(&verdicts), ["accepted", "unavailable", "skipped"]);
    assert!(error(&verdicts).contains("no such topic"), "{}", error(&verdicts));
    assert_eq!(read(&servers, &format!("{topic}.a")).len(), 1);
}

/// PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn kafka_that_refuses_the_password_or_is_down_is_told_without_it() {
    let Some(servers) = variable(URL, "the sink for kafka") else { return };
    let options = pillarbox_sinks::SinkOptions { timeout: Duration::from_secs(4), ..Default::default() };
    let login = "option.security.protocol=sasl_plaintext&option.sasl.mechanisms=PLAIN";
    for place in [servers.as_str(), "127.0.0.1:1"] {
        let url = format!("kafka://me:{CANARY}@{place}/t?{login}");
        checks::refused_without_the_password(&*pillarbox_sinks::open(&url, &options).unwrap()).await;
    }
}

/// PBX-010, RLY-031
#[tokio::test(flavor = "multi_thread")]
async fn kafka_loses_nothing_and_keeps_order_over_a_restart() {
    let Some(mut server) = server() else { return };
    let servers = format!("127.0.0.1:{}", server.port);
    make_topic(&servers, "t", &[]).await;
    assert!(
        checks::deliver_over_a_restart(sink(&format!("kafka://{servers}/t")), &mut server, async || true)
            .await
    );
    checks::complete_and_in_order(read(&servers, "t").into_iter().map(|got| got.body));
}

/// PBX-013
#[tokio::test(flavor = "multi_thread")]
async fn kafka_takes_more_at_once_than_may_wait() {
    let Some(url) = variable(URL, "the sink for kafka") else { return };
    let topic = unique("t");
    make_topic(&url, &topic, &[]).await;
    let small = "option.queue.buffering.max.messages=1000";
    checks::many_at_once(sink(&format!("kafka://{url}/{topic}?{small}"))).await;
}
