//! The Kafka sink: a record is delivered when all in-sync replicas have it.

mod config;
mod runs;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::GroupKey;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::time::{Instant, sleep, timeout};

use crate::address::{Address, destination};
use crate::courier::{self, Courier, rejected, unavailable};
use crate::envelope::{Binding, Envelope};
use crate::error::SinkError;
use crate::fault::Fault;
use crate::lazy_connection::LazyConnection;
use crate::options::SinkOptions;
use crate::template::{RenderError, Template, Value};
use runs::Runs;

const PORT: u16 = 9_092;
/// Maximum length of a topic name.
const TOPIC_MAX: usize = 249;
/// How long the sink waits for a result after the producer's own timeout.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of retries while the producer's queue is full.
const ROOM_WAIT: Duration = Duration::from_millis(10);

/// Produces events to Kafka topics.
///
/// The URL is `kafka://HOST[:PORT][,…]/TOPIC`. The topic is a [`Template`]. Settings: `format`, and
/// `option.NAME` for the property NAME of librdkafka, such as `option.compression.type=zstd`. Properties that
/// the delivery guarantees depend on can't be set.
///
/// The key is the event's group, or else its id, so a group stays in one partition and in order. The producer
/// is idempotent, so its own retries add no duplicates. A later redelivery of an event is stored twice.
pub struct KafkaSink {
    connection: LazyConnection<Producer>,
    config: ClientConfig,
    topic: Template,
    envelope: Envelope,
    timeout: Duration,
}

struct Producer {
    producer: ThreadedProducer<Watcher>,
    watcher: Watcher,
}

/// Receives the result of every record, and remembers the client's last error, which says more than a
/// timeout.
#[derive(Clone, Default)]
struct Watcher {
    runs: Runs,
    complaint: Arc<Mutex<Option<RDKafkaErrorCode>>>,
}

impl ClientContext for Watcher {
    /// The client's texts contain servers and users, so only the name of the component is logged.
    fn log(&self, _: RDKafkaLogLevel, facility: &str, _: &str) {
        tracing::debug!(facility, "Kafka client log");
    }

    fn error(&self, error: KafkaError, _: &str) {
        let code = error.rdkafka_error_code();
        tracing::debug!(?code, "the client of Kafka has an error");
        // "All brokers are down" follows a lost connection and would hide the reason for it.
        if code != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = code;
        }
    }
}

impl ProducerContext for Watcher {
    /// The number of the record in [`Runs`].
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        self.runs.answer(number, result.as_ref().err().map(|(error, _)| error.clone()));
    }
}

impl Watcher {
    fn complaint(&self) -> Option<RDKafkaErrorCode> {
        *self.complaint.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A record and its topic. The headers are encoded when the record is handed to the producer.
pub(crate) struct Record<'a> {
    event: &'a Event,
    topic: Cow<'a, str>,
    key: Cow<'a, str>,
    body: Cow<'a, [u8]>,
}

impl KafkaSink {
    /// Opens the sink of a URL. It connects with the first delivery, but the client's settings are checked
    /// here.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let mut address = Address::parse(url, PORT)?;
        let topic = destination(Some(address.path()?), options, "topic: add it as the path")?;
        // Shorter than the sink's timeout, so that the producer has given up a record before it gets its
        // verdict.
        let timeout = options.timeout * 5 / 6;
        let config = config::of(&mut address, options, timeout)?;
        let options = address.finish(options)?;
        let envelope = Envelope::new(options.format, Binding::Kafka, options.source.clone());
        Ok(Self { connection: LazyConnection::new(), config, topic, envelope, timeout })
    }

    /// Creates the producer, which connects and reconnects by itself. It is idempotent, so reconnects keep
    /// the order.
    async fn connect(&self) -> Result<Producer, String> {
        produce_with(&self.config)
    }

    fn topic(&self, event: &Event) -> Result<Cow<'_, str>, String> {
        let topic = match self.topic.as_constant() {
            Some(topic) => topic.into(),
            None => Cow::Owned(self.topic.render(event, escaped).map_err(|error| error.to_string())?),
        };
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        // The author of an event must not reach Kafka's internal topics.
        let own = topic.starts_with("__");
        if own || topic == "." || topic == ".." || topic.len() > TOPIC_MAX || !topic.chars().all(plain) {
            return Err("the topic made by the template is none that can be produced to".to_owned());
        }
        Ok(topic)
    }

    /// Sends records again, one at a time, after the broker refused them as too large.
    ///
    /// The broker's limit applies to a batch of the producer, whose records may each be small enough. The
    /// producer accepts no record after a refused one (`enable.gapless.guarantee`), so the order is kept.
    async fn send_alone(&self, run: &[Record<'_>]) -> Vec<Verdict> {
        let mut config = self.config.clone();
        config.set("batch.num.messages", "1");
        let producer = match produce_with(&config) {
            Ok(producer) => producer,
            Err(error) => return vec![unavailable(error)],
        };
        let mut verdicts = Vec::with_capacity(run.len());
        for record in run {
            let sent = self.send_all(&producer, std::slice::from_ref(record)).await;
            if let Err(failure) = sent {
                verdicts.push(verdict(&failure.error, &producer.watcher));
                break;
            }
            verdicts.push(Verdict::Accepted);
        }
        verdicts
    }

    /// Hands a run to the producer and waits for all results. The error is the first failure.
    async fn send_all(&self, producer: &Producer, run: &[Record<'_>]) -> Result<(), FailedRecord> {
        let mut begun = producer.watcher.runs.begin(run.len());
        let mut stopped = None;
        let deadline = Instant::now() + self.timeout;
        for (place, record) in run.iter().enumerate() {
            if let Err(error) = self.enqueue(producer, record, begun.number(place), deadline).await {
                stopped = Some(FailedRecord { taken: place, error, by: By::Client });
                break;
            }
            begun.handed_over();
        }
        let failed = match timeout(self.timeout + GRACE, begun.done()).await {
            Ok(Some(failed)) => failed,
            Ok(None) => Some((0, KafkaError::Canceled)),
            Err(_) => Some((0, KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut))),
        };
        let failure = failed.map(|(taken, error)| FailedRecord { taken, error, by: By::Broker });
        // A record that failed at the broker precedes the one at which handing over stopped.
        failure.or(stopped).map_or(Ok(()), Err)
    }

    /// Hands a record to the producer, and waits while its queue is full.
    async fn enqueue(
        &self,
        producer: &Producer,
        record: &Record<'_>,
        number: usize,
        deadline: Instant,
    ) -> Result<(), KafkaError> {
        let told = BaseRecord::with_opaque_to(&record.topic, number).key(&*record.key);
        let mut told = told.payload(&*record.body).headers(self.headers(record.event));
        loop {
            let error;
            (error, told) = match producer.producer.send(told) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !full || Instant::now() >= deadline {
                return Err(error);
            }
            // The client has no signal for free space in its queue.
            sleep(ROOM_WAIT).await;
        }
    }

    fn headers(&self, event: &Event) -> OwnedHeaders {
        let content = Header { key: "content-type", value: Some(self.envelope.content_type(event)) };
        let mut headers = Some(OwnedHeaders::new().insert(content));
        self.envelope.each_header(event, |name, value| {
            headers = headers.take().map(|headers| headers.insert(Header { key: name, value: Some(value) }));
        });
        headers.unwrap_or_default()
    }
}

/// The first record of a run that failed.
struct FailedRecord {
    /// Number of records that were accepted before it.
    taken: usize,
    error: KafkaError,
    by: By,
}

/// The side that refused a record.
#[derive(PartialEq)]
enum By {
    /// The client, before it sent the record.
    Client,
    /// The broker, by an error or by not answering in time.
    Broker,
}

fn produce_with(config: &ClientConfig) -> Result<Producer, String> {
    let watcher = Watcher::default();
    let producer = config.create_with_context(watcher.clone());
    let producer = producer.map_err(|_| "the client of Kafka can't be made with these options".to_owned())?;
    Ok(Producer { producer, watcher })
}

/// The event's group, or else its id.
fn key(event: &Event) -> Cow<'_, str> {
    match event.message_group() {
        Some(group) => group.into(),
        None => GroupKey::of(event)
            .map_or_else(|| event.id().as_str().into(), |group| group.as_str().to_owned().into()),
    }
}

/// Escapes a value for a topic: characters that are not allowed become `_`.
fn escaped<'v>(_: &str, value: Value<'v>) -> Result<Cow<'v, str>, RenderError> {
    let bad = |letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter);
    let text = value.text;
    Ok(if text.contains(bad) { text.replace(bad, "_").into() } else { text.into() })
}

fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}

fn verdict(error: &KafkaError, watcher: &Watcher) -> Verdict {
    use RDKafkaErrorCode::{
        InvalidRecord, MessageTimedOut, QueueFull, UnknownTopic, UnknownTopicOrPartition,
    };
    match error.rdkafka_error_code() {
        _ if is_too_large(error) => rejected("the record is larger than message.max.bytes allows"),
        Some(InvalidRecord) => rejected("Kafka says that the record breaks a rule of its topic"),
        Some(UnknownTopic | UnknownTopicOrPartition) => {
            unavailable(Fault::new(Cause::Missing, "Kafka has no such topic: create it"))
        }
        Some(QueueFull) => unavailable("too many records wait for Kafka"),
        Some(MessageTimedOut) => {
            let why = watcher.complaint().map(|code| format!("; the client says: {code}"));
            let text = format!("Kafka did not take it in time{}", why.unwrap_or_default());
            unavailable(Fault::new(Cause::Timeout, text))
        }
        Some(code) => unavailable(format!("Kafka did not take it: {code}")),
        None => unavailable("Kafka did not take it"),
    }
}

impl Courier for KafkaSink {
    type Message<'a> = Record<'a>;

    fn prepare<'a>(&'a self, delivery: &'a Delivery) -> Result<Record<'a>, Verdict> {
        let event = &delivery.event;
        let topic = self.topic(event).map_err(rejected)?;
        let body = self.envelope.body(event).map_err(rejected)?;
        Ok(Record { event, topic, key: key(event), body })
    }

    fn together(&self, one: &Record<'_>, other: &Record<'_>) -> bool {
        one.topic == other.topic
    }

    async fn send<'a>(&'a self, run: Vec<Record<'a>>) -> Vec<Verdict> {
        let held = match self.connection.held(|| self.connect()).await {
            Ok(held) => held,
            Err(error) => return vec![unavailable(error)],
        };
        let Some(producer) = held.get() else { return Vec::new() };
        let Err(failure) = self.send_all(producer, &run).await else {
            return vec![Verdict::Accepted; run.len()];
        };
        // A producer accepts nothing after a fatal error, so it is replaced.
        if producer.producer.client().fatal_error().is_some() {
            self.connection.give_up(&held);
        }
        let mut verdicts = vec![Verdict::Accepted; failure.taken];
        if is_too_large(&failure.error) && failure.by == By::Broker {
            verdicts.extend(self.send_alone(&run[failure.taken..]).await);
        } else {
            verdicts.push(verdict(&failure.error, &producer.watcher));
        }
        verdicts
    }
}

impl Sink for KafkaSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(courier::deliver(self, batch))
    }
}
