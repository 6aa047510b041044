//! The RabbitMQ sink: a message is delivered when the broker has routed it to a queue and confirmed it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{BasicProperties, Channel, Confirmation, ConnectionProperties, Error, ErrorKind};
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use tokio::time::timeout;

use crate::address::{Address, certificates, destination};
use crate::courier::{self, Courier, rejected, said, unavailable};
use crate::envelope::{Binding, Encoded, Envelope};
use crate::error::SinkError;
use crate::fault::{Fault, cause_of};
use crate::lazy_connection::LazyConnection;
use crate::options::SinkOptions;
use crate::template::Template;

const PORT: u16 = 5_672;
const TLS_PORT: u16 = 5_671;
/// Heartbeat interval of a connection, in seconds.
const HEARTBEAT: u16 = 10;
/// Maximum number of idle channels that are kept open.
const IDLE_MAX: usize = 64;
const PERSISTENT: u8 = 2;
/// Prefix of the names that belong to the broker: its own exchanges and queues.
const RESERVED: &str = "amq.";
const UNROUTABLE: &str = "unroutable: no queue is bound to the exchange for this routing key";

/// Publishes events to a RabbitMQ exchange.
///
/// The URL is `amqp://[USER:PASSWORD@]HOST[:PORT]/VHOST?exchange=EXCHANGE&routing-key=KEY`, or `amqps://…`.
/// Exchange and key are [`Template`]s. Without an exchange, messages go to the queue that the key names. The
/// key is `{type}` by default. Setting: `format`.
///
/// Messages are persistent and mandatory. RabbitMQ does not deduplicate: a redelivery after a lost
/// confirmation is stored twice, with the same message id.
pub struct RabbitMqSink {
    connection: LazyConnection<Connection>,
    uri: AMQPUri,
    trusted: Option<String>,
    exchange: Option<Template>,
    routing_key: Template,
    envelope: Envelope,
    options: SinkOptions,
    /// The broker's maximum message size, once it is known.
    size_max: AtomicUsize,
}

/// A connection and its idle channels. Each delivery uses its own channel, because an error closes the
/// channel.
struct Connection {
    connection: lapin::Connection,
    idle: Mutex<Vec<Channel>>,
}

/// A message with its exchange and routing key.
pub(crate) struct Message {
    exchange: ShortString,
    routing_key: ShortString,
    properties: BasicProperties,
    encoded: Encoded,
}

/// Reply codes of AMQP.
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const NOT_ALLOWED: u16 = 530;

/// The reason why a run ended early.
struct Broken {
    fault: Fault,
    /// Whether the connection may be unusable too, not only the channel.
    broke: bool,
}

impl RabbitMqSink {
    /// Opens the sink of a URL. It connects with the first delivery.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let tls = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("amqps"));
        let mut address = Address::parse(url, if tls { TLS_PORT } else { PORT })?;
        let exchange = address.take("exchange").filter(|exchange| !exchange.is_empty());
        let exchange = exchange.map(|exchange| Template::parse(&exchange)).transpose()?;
        let key = address.take("routing-key").or_else(|| options.destination.clone());
        let routing_key =
            destination(Some(key.unwrap_or_else(|| "{type}".to_owned())), options, "routing key")?;
        if !tls {
            address.check_cleartext(options, "amqps://")?;
        }
        let uri = uri(&mut address, if tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP })?;
        let trusted = certificates(options)?;
        let options = address.finish(options)?;
        let envelope = Envelope::new(options.format, Binding::Amqp, options.source.clone());
        let size_max = AtomicUsize::new(usize::MAX);
        Ok(Self {
            connection: LazyConnection::new(),
            uri,
            trusted,
            exchange,
            routing_key,
            envelope,
            options,
            size_max,
        })
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        let properties = ConnectionProperties::default().with_connection_name("pillarbox".into());
        let tls = OwnedTLSConfig { identity: None, cert_chain: self.trusted.clone() };
        let runtime = lapin::runtime::default_runtime().map_err(|error| reason(&error))?;
        let connect = lapin::Connection::connect_uri_with_config(self.uri.clone(), properties, tls, runtime);
        let connection = timeout(self.options.connect_timeout, connect).await;
        let connection = connection.map_err(|_| Fault::new(Cause::Timeout, "RabbitMQ does not answer"))?;
        let connection = connection.map_err(|error| reason(&error).during("no connection to RabbitMQ"))?;
        Ok(Connection { connection, idle: Mutex::default() })
    }

    /// Shorter than the timeout of a delivery, so that a slow broker still gives each event its own verdict.
    fn timeout(&self) -> Duration {
        self.options.timeout * 5 / 6
    }

    async fn publish(
        &self,
        connection: &Connection,
        run: Vec<Message>,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), Broken> {
        let channel = connection.channel().await?;
        let mut confirms = Vec::with_capacity(run.len());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut sent = Ok(());
        for Message { exchange, routing_key, properties, encoded } in run {
            let publish = channel.basic_publish(exchange, routing_key, options, &encoded.body, properties);
            match publish.await {
                Ok(confirm) => confirms.push(confirm),
                Err(error) => {
                    sent = Err(Broken::by(&error));
                    break;
                }
            }
        }
        for confirm in confirms {
            match confirm.await.map_err(|error| Broken::by(&error))? {
                Confirmation::Ack(None) => verdicts.push(Verdict::Accepted),
                Confirmation::Ack(Some(_)) => {
                    verdicts.push(unavailable(Fault::new(Cause::Missing, UNROUTABLE)))
                }
                Confirmation::Nack(_) => {
                    verdicts.push(unavailable("RabbitMQ refused it: a queue is full or failed"))
                }
                Confirmation::NotRequested => {
                    return Err(Broken { fault: "no confirmation".into(), broke: true });
                }
            }
        }
        sent?;
        connection.put_back(channel);
        Ok(())
    }

    /// Refuses what the author of an event must not reach: the broker's own exchanges and queues, and the
    /// default exchange, which leads to every queue. The operator may name any of them.
    fn check_names(&self, exchange: &str, routing_key: &str) -> Result<(), Verdict> {
        let by_event = |template: &Template| !template.is_constant();
        let is_own = |name: &str| name.is_empty() || name.starts_with(RESERVED);
        if self.exchange.as_ref().is_some_and(by_event) && is_own(exchange) {
            return Err(rejected("the exchange made by the template is none that an event may name"));
        }
        // On the default exchange the routing key is the name of a queue.
        if exchange.is_empty() && by_event(&self.routing_key) && is_own(routing_key) {
            return Err(rejected("the queue made by the template is none that an event may name"));
        }
        Ok(())
    }

    /// Learns the broker's size limit from the error that closed the channel. That error does not say which
    /// message was too large; with the next attempt [`Courier::prepare`] rejects it by its size.
    fn learn(&self, error: &str) {
        if let Some(max) = size_limit(error) {
            self.size_max.fetch_min(max, Ordering::Relaxed);
        }
    }
}

impl Connection {
    async fn channel(&self) -> Result<Channel, Broken> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(channel) = idle.filter(|channel| channel.status().connected()) {
            return Ok(channel);
        }
        let channel = self.connection.create_channel().await.map_err(|error| Broken::by(&error))?;
        let confirming = channel.confirm_select(ConfirmSelectOptions::default()).await;
        confirming.map_err(|error| Broken::by(&error))?;
        Ok(channel)
    }

    /// Keeps a channel for reuse. The caller has received all its confirmations.
    fn put_back(&self, channel: Channel) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(channel);
        }
    }
}

impl Broken {
    fn by(error: &Error) -> Self {
        Self { fault: reason(error), broke: !error.is_amqp_soft_error() }
    }
}

fn uri(address: &mut Address, scheme: AMQPScheme) -> Result<AMQPUri, SinkError> {
    let [(host, port)] = &address.hosts[..] else {
        return Err(SinkError::url("names several servers: put one, or a name that stands for all"));
    };
    let (host, port) = (host.trim_matches(['[', ']']).to_owned(), *port);
    let vhost = Some(address.path()?).filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let userinfo = AMQPUserInfo {
        username: address.user.take().unwrap_or_else(|| "guest".to_owned()),
        password: address
            .password
            .take()
            .map_or_else(|| "guest".to_owned(), |secret| secret.reveal().to_owned()),
    };
    let query = AMQPQueryString { heartbeat: Some(HEARTBEAT), ..AMQPQueryString::default() };
    Ok(AMQPUri { scheme, authority: AMQPAuthority { userinfo, host, port }, vhost, query })
}

/// The class and text of an error, without addresses or passwords.
fn reason(error: &Error) -> Fault {
    match error.kind() {
        ErrorKind::ProtocolError(refusal) => {
            let cause = match refusal.get_id() {
                ACCESS_REFUSED | NOT_ALLOWED => Cause::Unauthorized,
                NOT_FOUND => Cause::Missing,
                _ => Cause::Other,
            };
            Fault::new(cause, said(&refusal.to_string()))
        }
        ErrorKind::IOError(error) => Fault::new(cause_of(error.kind()), error.kind().to_string()),
        ErrorKind::MissingHeartbeatError => Fault::new(Cause::Timeout, "the broker fell silent"),
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) => {
            "the connection was lost".into()
        }
        _ => "the connection failed".into(),
    }
}

/// Parses the limit of `… message size 134217729 is larger than configured max size 134217728`.
fn size_limit(error: &str) -> Option<usize> {
    let (_, after) = error.split_once("max size ")?;
    let digits = after.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn short(text: &str, what: &str) -> Result<ShortString, Verdict> {
    ShortString::try_new(text)
        .map_err(|_| rejected(format!("the {what} is longer than the 255 bytes that AMQP takes")))
}

fn properties(delivery: &Delivery, encoded: &Encoded) -> BasicProperties {
    let event = &delivery.event;
    let mut headers = FieldTable::default();
    for (name, value) in &encoded.headers {
        // AMQP limits names to 255 bytes. A header with a longer name is dropped; the event is sent without
        // it.
        if let Ok(name) = ShortString::try_new(name.clone()) {
            headers.insert(name, AMQPValue::LongString(LongString::from(value.as_str())));
        }
    }
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    let seconds = u64::try_from(event.occurred_at().as_second());
    if let Ok(seconds) = seconds {
        properties = properties.with_timestamp(seconds);
    }
    let fits = |text: &str| ShortString::try_new(text).ok();
    if let Some(kind) = fits(&encoded.content_type) {
        properties = properties.with_content_type(kind);
    }
    if let Some(kind) = fits(event.event_type()) {
        properties = properties.with_type(kind);
    }
    if let Some(correlation) = event.correlation_id().and_then(fits) {
        properties = properties.with_correlation_id(correlation);
    }
    properties
}

impl Courier for RabbitMqSink {
    type Message<'a> = Message;

    fn prepare(&self, delivery: &Delivery) -> Result<Message, Verdict> {
        let event = &delivery.event;
        let rendered =
            |template: &Template| template.render_plain(event).map_err(|error| rejected(error.to_string()));
        let exchange = self.exchange.as_ref().map(rendered).transpose()?.unwrap_or_default();
        let routing_key = rendered(&self.routing_key)?;
        self.check_names(&exchange, &routing_key)?;
        let encoded = self.envelope.encode(delivery).map_err(rejected)?;
        if encoded.body.len() > self.size_max.load(Ordering::Relaxed) {
            return Err(rejected("the message is larger than the broker's max_message_size"));
        }
        let id = short(event.id().as_str(), "event's id")?;
        Ok(Message {
            exchange: short(&exchange, "exchange")?,
            routing_key: short(&routing_key, "routing key")?,
            properties: properties(delivery, &encoded).with_message_id(id),
            encoded,
        })
    }

    fn together(&self, one: &Message, other: &Message) -> bool {
        one.exchange == other.exchange && one.routing_key == other.routing_key
    }

    async fn send(&self, run: Vec<Message>) -> Vec<Verdict> {
        let held = match self.connection.held(|| self.connect()).await {
            Ok(held) => held,
            Err(error) => return vec![unavailable(error)],
        };
        let Some(connection) = held.get() else { return Vec::new() };
        let mut verdicts = Vec::with_capacity(run.len());
        let published = timeout(self.timeout(), self.publish(connection, run, &mut verdicts)).await;
        let silent = || Broken { fault: Fault::new(Cause::Timeout, "no confirmation in time"), broke: true };
        if let Err(Broken { fault, broke }) = published.unwrap_or_else(|_| Err(silent())) {
            self.learn(&fault.error);
            if broke {
                self.connection.give_up(&held);
            }
            verdicts.push(unavailable(fault.during("RabbitMQ did not take it")));
        }
        verdicts
    }
}

impl Sink for RabbitMqSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(courier::deliver(self, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_from_the_brokers_words() {
        let words =
            "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728";
        assert_eq!(size_limit(words), Some(134_217_728));
        assert_eq!(size_limit("NOT_FOUND - no exchange 'x' in vhost '/'"), None);
        assert_eq!(size_limit("max size "), None);
    }
}
