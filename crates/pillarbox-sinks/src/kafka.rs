//! The sink for Kafka: a record is delivered when all replicas in sync have it.

mod config;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::model::GroupKey;
use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use tokio::time::{Instant, sleep, timeout};

use crate::address::{Address, destination};
use crate::courier::{self, Courier, rejected, unavailable};
use crate::envelope::{Binding, Encoded, Envelope};
use crate::error::SinkError;
use crate::link::Link;
use crate::options::SinkOptions;
use crate::template::Template;

const PORT: u16 = 9_092;
/// Longest name of a topic.
const TOPIC_MAX: usize = 249;
/// How much later than the producer itself we stop waiting for it.
const GRACE: Duration = Duration::from_secs(2);
/// How often a full queue is tried again.
const ROOM_WAIT: Duration = Duration::from_millis(10);

/// Produces events to topics of Kafka.
///
/// The URL is `kafka://HOST[:PORT][,…]/TOPIC`; the topic is a [`Template`]. Settings: `format`, and `option.NAME` for what
/// librdkafka calls NAME, such as `option.compression.type=zstd`; what the guarantees rest on can't be set.
///
/// The key is the event's group, else its id: a group stays in one partition, in order. The producer is idempotent, so what it sends
/// again by itself is there once; an event that is delivered again later is there twice.
pub struct KafkaSink {
    link: Link<Producer>,
    config: ClientConfig,
    topic: Template,
    envelope: Envelope,
    timeout: Duration,
}

type FutureOf = FutureProducer<Watcher>;

struct Producer {
    producer: FutureOf,
    watcher: Watcher,
}

/// Remembers what the client complained of last, which tells more than that a record timed out.
#[derive(Clone, Default)]
struct Watcher {
    complaint: Arc<Mutex<Option<RDKafkaErrorCode>>>,
}

impl ClientContext for Watcher {
    /// Texts of the client name servers and users: only the part that spoke is told.
    fn log(&self, _: RDKafkaLogLevel, facility: &str, _: &str) {
        tracing::debug!(facility, "the client of Kafka has something to say");
    }

    fn error(&self, error: KafkaError, _: &str) {
        let code = error.rdkafka_error_code();
        tracing::debug!(?code, "the client of Kafka has an error");
        // A lost connection is followed by "all brokers are down", which hides the reason.
        if code != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.complaint.lock().unwrap_or_else(PoisonError::into_inner) = code;
        }
    }
}

impl Watcher {
    fn complaint(&self) -> Option<RDKafkaErrorCode> {
        *self.complaint.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A record and its topic.
pub(crate) struct Record {
    topic: String,
    key: String,
    encoded: Encoded,
}

impl KafkaSink {
    /// A sink for the URL. Nothing is connected to yet, but the client's settings have been tried.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let mut address = Address::parse(url, PORT)?;
        let topic = destination(Some(address.path()?), options, "topic: add it as the path")?;
        // Well before the sink's own limit, so that the producer is done with a record when it is judged.
        let timeout = options.timeout * 5 / 6;
        let config = config::of(&mut address, options, timeout)?;
        let options = address.finish(options)?;
        let envelope = Envelope::new(options.format, Binding::Kafka, options.source.clone());
        Ok(Self { link: Link::new(), config, topic, envelope, timeout })
    }

    /// The client is made here and connects by itself, again and again.
    async fn connect(&self) -> Result<Producer, String> {
        produce_with(&self.config)
    }

    fn topic(&self, delivery: &Delivery) -> Result<String, String> {
        let topic = self.topic.render(&delivery.event, escaped).map_err(|error| error.to_string())?;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        // Topics of Kafka itself are not for the author of an event.
        let own = topic.starts_with("__");
        if own || topic == "." || topic == ".." || topic.len() > TOPIC_MAX || !topic.chars().all(plain) {
            return Err("the topic made by the template is none that can be produced to".to_owned());
        }
        Ok(topic)
    }

    /// Sends what the broker found too large once more, each record alone.
    ///
    /// The broker's limit is on what it gets at once, which may have been several records that each would pass. The producer takes none after a
    /// refused one (`enable.gapless.guarantee`), so the order is kept.
    async fn send_alone(&self, run: &[Record]) -> Vec<Verdict> {
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

    /// Hands the run to the producer and waits for all of it; tells of the first failure.
    async fn send_all(&self, producer: &Producer, run: &[Record]) -> Result<(), Failure> {
        let mut queued = Vec::with_capacity(run.len());
        let mut stopped = None;
        let deadline = Instant::now() + self.timeout;
        for record in run {
            match enqueue(producer, record, deadline).await {
                Ok(delivery) => queued.push(delivery),
                Err(error) => {
                    stopped = Some(error);
                    break;
                }
            }
        }
        // The last one first: when it is answered the others are, and this task is woken once for all of them.
        let answers = async {
            let mut answers = Vec::with_capacity(queued.len());
            for delivery in queued.into_iter().rev() {
                answers.push(
                    delivery
                        .await
                        .map_err(|_| KafkaError::Canceled)
                        .and_then(|answer| answer.map(drop).map_err(|(error, _)| error)),
                );
            }
            answers.reverse();
            answers
        };
        let silent = || vec![Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut))];
        let answers = timeout(self.timeout + GRACE, answers).await.unwrap_or_else(|_| silent());
        let taken = answers.iter().take_while(|answer| answer.is_ok()).count();
        let first = answers.into_iter().find_map(Result::err);
        let failure = first.map(|error| Failure { taken, error, by: By::Broker });
        let stopped = stopped.map(|error| Failure { taken, error, by: By::Client });
        failure.or(stopped).map_or(Ok(()), Err)
    }
}

/// Hands a record to the producer; waits while its queue has no room.
async fn enqueue(
    producer: &Producer,
    record: &Record,
    deadline: Instant,
) -> Result<DeliveryFuture, KafkaError> {
    loop {
        let told = FutureRecord::to(&record.topic).key(&record.key).payload(&record.encoded.body[..]);
        let (error, _) = match producer.producer.send_result(told.headers(headers(&record.encoded))) {
            Ok(delivery) => return Ok(delivery),
            Err(refused) => refused,
        };
        let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
        if !full || Instant::now() >= deadline {
            return Err(error);
        }
        // The client does not tell when there is room again.
        sleep(ROOM_WAIT).await;
    }
}

/// The first record of a run that failed.
struct Failure {
    /// How many were taken before it.
    taken: usize,
    error: KafkaError,
    by: By,
}

/// Who refused a record.
#[derive(PartialEq)]
enum By {
    /// The client, before it was sent.
    Client,
    /// The broker, or its silence.
    Broker,
}

fn produce_with(config: &ClientConfig) -> Result<Producer, String> {
    let watcher = Watcher::default();
    let producer = config.create_with_context(watcher.clone());
    let producer = producer.map_err(|_| "the client of Kafka can't be made with these options".to_owned())?;
    Ok(Producer { producer, watcher })
}

/// A value within a topic: what no topic can have becomes a line.
fn escaped(value: &str) -> Cow<'_, str> {
    let bad = |letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter);
    if value.contains(bad) { value.replace(bad, "_").into() } else { value.into() }
}

fn headers(encoded: &Encoded) -> OwnedHeaders {
    let headers = OwnedHeaders::new_with_capacity(encoded.headers.len() + 1);
    let content = Header { key: "content-type", value: Some(encoded.content_type.as_str()) };
    encoded.headers.iter().fold(headers.insert(content), |headers, (name, value)| {
        headers.insert(Header { key: name, value: Some(value.as_str()) })
    })
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
        Some(UnknownTopic | UnknownTopicOrPartition) => unavailable("Kafka has no such topic: create it"),
        Some(QueueFull) => unavailable("too many records wait for Kafka"),
        Some(MessageTimedOut) => {
            let why = watcher.complaint().map(|code| format!("; the client says: {code}"));
            unavailable(format!("Kafka did not take it in time{}", why.unwrap_or_default()))
        }
        Some(code) => unavailable(format!("Kafka did not take it: {code}")),
        None => unavailable("Kafka did not take it"),
    }
}

impl Courier for KafkaSink {
    type Message = Record;

    fn prepare(&self, delivery: &Delivery) -> Result<Record, Verdict> {
        let topic = self.topic(delivery).map_err(rejected)?;
        let encoded = self.envelope.encode(delivery).map_err(rejected)?;
        let event = &delivery.event;
        let key =
            GroupKey::of(event).map_or_else(|| event.id().as_str().to_owned(), |key| key.as_str().to_owned());
        Ok(Record { topic, key, encoded })
    }

    fn together(&self, one: &Record, other: &Record) -> bool {
        one.topic == other.topic
    }

    async fn send(&self, run: Vec<Record>) -> Vec<Verdict> {
        let held = match self.link.held(|| self.connect()).await {
            Ok(held) => held,
            Err(error) => return vec![unavailable(error)],
        };
        let Some(producer) = held.get() else { return Vec::new() };
        let Err(failure) = self.send_all(producer, &run).await else {
            return vec![Verdict::Accepted; run.len()];
        };
        // After a fatal error a producer takes nothing any more.
        if producer.producer.client().fatal_error().is_some() {
            self.link.give_up(&held);
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
        Box::pin(courier::carry(self, batch))
    }
}
