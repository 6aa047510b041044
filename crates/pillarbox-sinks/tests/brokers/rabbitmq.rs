//! RabbitMQ.

use std::collections::BTreeMap;
use std::process::Command;

use lapin::options::{BasicGetOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::time::timeout;

use super::checks;
use super::events::{CANARY, Got, delivery, error, sink, sized, three, typed, unique, words};
use super::server::{Server, variable};

const URL: &str = "PILLARBOX_TEST_RABBITMQ_URL";
const BIN: &str = "PILLARBOX_TEST_RABBITMQ_BIN";
const RUN: &str = include_str!("../../../../tools/servers/src/rabbitmq/run.sh");

/// Kills of a broker until one leaves it its queue.
const RUNS: usize = 3;

/// A channel whose connection lives as long.
struct Reader {
    channel: Channel,
    _connection: Connection,
}

impl Reader {
    async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        Self { channel: connection.create_channel().await.unwrap(), _connection: connection }
    }

    async fn declare(&self, queue: &str, arguments: FieldTable) {
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(queue.into(), durable, arguments).await.unwrap();
    }

    /// Declares a queue that outlasts a kill of the broker, which writes queues to its log up to seconds after it has confirmed them.
    async fn declare_on_disk(&self, server: &Server, queue: &str) {
        let log = format!("mnesia/pillarbox-{}@localhost/LATEST.LOG", server.port);
        let log = server.data().join(log);
        let is_written = || {
            let log = std::fs::read(&log).unwrap_or_default();
            log.windows(queue.len()).any(|window| window == queue.as_bytes())
        };
        while !is_written() {
            self.declare(queue, FieldTable::default()).await;
        }
    }

    async fn has(&self, queue: &str) -> bool {
        let passive = QueueDeclareOptions { passive: true, ..Default::default() };
        self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.is_ok()
    }

    /// Takes everything out of the queue.
    async fn read(&self, queue: &str) -> Vec<Got> {
        let mut got = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(message) = self.channel.basic_get(queue.into(), options).await.unwrap() {
            let properties = &message.delivery.properties;
            assert_eq!(*properties.delivery_mode(), Some(2));
            let text = |value: &AMQPValue| match value {
                AMQPValue::LongString(text) => text.to_string(),
                other => panic!("{other:?}"),
            };
            let table = properties.headers().clone().unwrap_or_default();
            let named = table.inner().iter().map(|(name, value)| (name.to_string(), text(value)));
            let mut headers: BTreeMap<_, _> = named.collect();
            let content = properties.content_type().clone().unwrap_or_default();
            headers.insert("content-type".to_owned(), content.to_string());
            let key = properties.message_id().clone().unwrap_or_default().to_string();
            got.push(Got { body: message.delivery.data.clone(), headers, key });
        }
        got
    }
}

fn server() -> Option<Server> {
    let bin = variable(BIN, "a restart of rabbitmq")?;
    Some(Server::new("completed with", move |data, port| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", RUN, "rabbitmq", &bin]).arg(data).arg(port.to_string());
        shell
    }))
}

/// PBX-010, PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_gets_the_bytes_in_order_with_headers_and_trace() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (reader, queue) = (Reader::connect(&url).await, unique("q"));
    reader.declare(&queue, FieldTable::default()).await;
    let sink = sink(&format!("{url}?routing-key={queue}"));
    let sent = three("g");
    assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
    let got = reader.read(&queue).await;
    checks::carried_raw(&sent, &got);
    assert_eq!(got[0].key, sent[0].event.id().as_str());
}

/// PBX-020
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_gets_cloud_events_in_both_modes() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let reader = Reader::connect(&url).await;
    let sent = three("g");
    for format in ["cloudevents", "cloudevents-binary"] {
        let queue = unique("q");
        reader.declare(&queue, FieldTable::default()).await;
        let sink = sink(&format!("{url}?exchange=amq.direct&routing-key={queue}&format={format}"));
        let verdicts = sink.deliver(&sent).await;
        assert_eq!(words(&verdicts), ["unavailable", "skipped", "skipped"]);
        assert!(error(&verdicts).contains("unroutable"), "{}", error(&verdicts));
        let bind = reader.channel.queue_bind(
            queue.as_str().into(),
            "amq.direct".into(),
            queue.as_str().into(),
            Default::default(),
            FieldTable::default(),
        );
        bind.await.unwrap();
        assert_eq!(words(&sink.deliver(&sent).await), ["accepted"; 3]);
        let got = reader.read(&queue).await;
        match format {
            "cloudevents" => checks::carried_structured(&sent, &got),
            _ => checks::carried_binary(&sent, &got, "cloudEvents_"),
        }
    }
}

/// PBX-010
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_without_a_queue_or_an_exchange_is_unavailable_and_nothing_goes_past() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (reader, queue) = (Reader::connect(&url).await, unique("q"));
    reader.declare(&format!("{queue}.a"), FieldTable::default()).await;
    let unroutable = sink(&format!("{url}?routing-key={queue}.{{type}}"));
    let batch = [typed("a", "g"), typed("b", "g"), typed("a", "g")];
    let verdicts = unroutable.deliver(&batch).await;
    assert_eq!(words(&verdicts), ["accepted", "unavailable", "skipped"]);
    assert_eq!(reader.read(&format!("{queue}.a")).await.len(), 1);
    let missing = sink(&format!("{url}?exchange={queue}&routing-key=a"));
    let verdicts = missing.deliver(&batch).await;
    assert_eq!(words(&verdicts), ["unavailable", "skipped", "skipped"]);
    assert!(error(&verdicts).contains("no exchange"), "{}", error(&verdicts));
    // The channel that the broker closed is replaced.
    assert_eq!(words(&unroutable.deliver(&batch[..1]).await), ["accepted"]);
}

/// PBX-156: the exchanges and the queue are there, so that only the sink can refuse them.
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_names_of_the_broker_are_the_operators_alone() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let reader = Reader::connect(&url).await;
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    let own = reader.channel.queue_declare("".into(), options, FieldTable::default()).await.unwrap();
    let own = own.name().as_str();
    assert!(own.starts_with("amq.gen"), "{own}");
    for (exchange, queue, kind) in
        [("{type}", own, "amq.fanout"), ("{header:none|}", own, "t"), ("", "{type}", own)]
    {
        let sink = sink(&format!("{url}?exchange={exchange}&routing-key={queue}"));
        let event = pillarbox::Event::text(kind.to_owned(), "{}").build().unwrap();
        let verdicts = sink.deliver(&[delivery(event)]).await;
        assert_eq!(words(&verdicts), ["rejected"], "{exchange} {queue}");
        assert!(error(&verdicts).contains("none that an event may name"), "{}", error(&verdicts));
    }
    let by_operator = sink(&format!("{url}?routing-key={own}"));
    assert_eq!(words(&by_operator.deliver(&[typed("a", "g")]).await), ["accepted"]);
    assert_eq!(reader.read(own).await.len(), 1);
}

/// PBX-018
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_that_refuses_by_nack_is_unavailable() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (reader, queue) = (Reader::connect(&url).await, unique("q"));
    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(1));
    full.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    reader.declare(&queue, full).await;
    let sink = sink(&format!("{url}?routing-key={queue}"));
    assert_eq!(words(&sink.deliver(&[typed("a", "g")]).await), ["accepted"]);
    assert_eq!(words(&sink.deliver(&[typed("a", "g")]).await), ["unavailable"]);
}

/// PBX-018
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_refuses_a_message_that_is_too_large_and_takes_those_before_it() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (reader, queue) = (Reader::connect(&url).await, unique("q"));
    reader.declare(&queue, FieldTable::default()).await;
    let sink = sink(&format!("{url}?routing-key={queue}"));
    // One byte more than a broker takes by default.
    let batch = [sized("a", "g", 10), sized("a", "g", 128 * 1024 * 1024 + 1), sized("a", "g", 10)];
    let first = sink.deliver(&batch).await;
    let taken = words(&first).iter().take_while(|word| **word == "accepted").count();
    assert!(error(&first).contains("max size"), "{}", error(&first));
    // The broker has told its limit by closing the channel.
    let then = sink.deliver(&batch[taken..]).await;
    let expected = ["accepted", "rejected", "skipped"];
    assert_eq!(words(&then), expected[taken..], "{}", error(&then));
}

/// PBX-023
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_that_refuses_the_password_or_is_down_is_told_without_it() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (_, place) = url.split_once('@').unwrap();
    checks::refused_without_the_password(&*sink(&format!("amqp://guest:{CANARY}@{place}?routing-key=a")))
        .await;
    // Nobody ever listens there.
    let down = format!("amqp://guest:{CANARY}@127.0.0.1:1/%2f?routing-key=a");
    checks::refused_without_the_password(&*sink(&down)).await;
}

/// PBX-010, RLY-031
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_loses_nothing_and_keeps_order_over_a_restart() {
    for _ in 0..RUNS {
        let Some(mut server) = server() else { return };
        if delivered_over_a_restart(&mut server).await {
            return;
        }
    }
    panic!("RabbitMQ lost its queue by each of {RUNS} kills");
}

/// False if the broker has lost its queue, which happens under load to one that was declared a moment before the kill.
async fn delivered_over_a_restart(server: &mut Server) -> bool {
    let url = format!("amqp://guest:guest@127.0.0.1:{}/%2f", server.port);
    let queue = unique("over-a-restart");
    let reader = Reader::connect(&url).await;
    timeout(checks::PATIENCE, reader.declare_on_disk(server, &queue)).await.unwrap();
    let sink = sink(&format!("{url}?routing-key={queue}"));
    let has_queue = async || Reader::connect(&url).await.has(&queue).await;
    if !checks::deliver_over_a_restart(sink, server, has_queue).await {
        return false;
    }
    let got = Reader::connect(&url).await.read(&queue).await;
    checks::complete_and_in_order(got.into_iter().map(|got| got.body));
    true
}

/// PBX-013
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_takes_more_at_once_than_may_wait() {
    let Some(url) = variable(URL, "the sink for rabbitmq") else { return };
    let (reader, queue) = (Reader::connect(&url).await, unique("q"));
    reader.declare(&queue, FieldTable::default()).await;
    checks::many_at_once(sink(&format!("{url}?routing-key={queue}"))).await;
}
