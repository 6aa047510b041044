//! The NATS JetStream sink: a message is delivered when its stream has acknowledged it.

mod sizes;

use std::borrow::Cow;
use std::error::Error as _;
use std::str::FromStr;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{Context, ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, HeaderMap, HeaderName, HeaderValue, ServerAddr,
};
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::address::{Address, destination};
use crate::cleartext;
use crate::courier::{self, Courier, rejected, said, unavailable};
use crate::envelope::{Binding, Encoded, Envelope};
use crate::error::SinkError;
use crate::fault::{Fault, cause_of};
use crate::lazy_connection::LazyConnection;
use crate::options::SinkOptions;
use crate::secret::{Secret, TokenSource, read_token};
use crate::template::{RenderError, Template, Value};
use crate::tls::ensure_tls_provider;
use sizes::Sizes;

const PORT: u16 = 4_222;
/// Maximum number of unacknowledged messages of all deliveries together.
const IN_FLIGHT_MAX: usize = 4_096;
/// Maximum number of messages that one delivery sends before it waits for acknowledgements.
const WINDOW_MAX: usize = 512;
/// The JetStream error for a message larger than its stream allows.
const TOO_LARGE_FOR_STREAM: ErrorCode = ErrorCode(10_054);
/// An address that no server listens on, used to prevent reconnects: see [`NatsSink::connect`].
const NOWHERE: &str = "nats://127.0.0.1:0";
const NO_STREAM: &str = "no stream takes the subject: create one whose subjects include it";

/// Publishes events to NATS JetStream.
///
/// The URL is `nats://[USER:PASSWORD@]HOST[:PORT][,…]/SUBJECT`, or `tls://…`. The subject is a [`Template`].
/// A user without a password is a token. Settings: `format`, `credentials-file`.
///
/// The message id is the event's id, so a stream drops a duplicate within its deduplication window, two
/// minutes by default. A later redelivery is stored twice.
pub struct NatsSink {
    connection: LazyConnection<Connection>,
    sizes: Sizes,
    servers: Vec<ServerAddr>,
    login: Login,
    subject: Template,
    envelope: Envelope,
    options: SinkOptions,
}

struct Login {
    user: Option<String>,
    password: Option<Secret>,
    credentials_file: Option<String>,
}

struct Connection {
    client: Client,
    streams: Context,
    /// Permits for unacknowledged messages. A delivery acquires those of a whole window at once: deliveries
    /// that each held a part would deadlock.
    room: Semaphore,
}

/// A message and its subject.
pub(crate) struct Message {
    subject: String,
    /// Size of headers and payload, in bytes.
    size: usize,
    message: PublishMessage,
}

impl NatsSink {
    /// Opens the sink of a URL. It connects with the first delivery.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let mut address = Address::parse(url, PORT)?;
        let subject = destination(Some(address.path()?), options, "subject: add it as the path")?;
        let scheme = if address.scheme == "tls" { "tls" } else { "nats" };
        if scheme == "nats" && options.ca_file.is_none() {
            check_cleartext(&address, options)?;
        }
        let login = Login {
            user: address.user.take(),
            password: address.password.take(),
            credentials_file: address.take("credentials-file"),
        };
        let server =
            |(host, port): &(String, u16)| ServerAddr::from_str(&format!("{scheme}://{host}:{port}"));
        let servers: Result<_, _> = address.hosts.iter().map(server).collect();
        let servers = servers.map_err(|_| SinkError::url("has a server that can't be one"))?;
        let options = address.finish(options)?;
        let envelope = Envelope::new(options.format, Binding::Nats, options.source.clone());
        Ok(Self {
            connection: LazyConnection::new(),
            sizes: Sizes::default(),
            servers,
            login,
            subject,
            envelope,
            options,
        })
    }

    /// Opens a connection that never reconnects.
    ///
    /// After a reconnect the client would send the messages in its queue although earlier messages were lost
    /// with the old connection, so a later event of a group would arrive first. The server pool is therefore
    /// replaced with an address that never answers, and the client ends instead.
    async fn connect(&self) -> Result<Connection, Fault> {
        ensure_tls_provider();
        let options = self.connect_options().await?;
        let client = timeout(self.options.connect_timeout, options.connect(&self.servers[..]));
        let client = client.await.map_err(|_| Fault::new(Cause::Timeout, "NATS does not answer"))?;
        let client = client.map_err(|error| unconnected(&error))?;
        let pool = client.set_server_pool(NOWHERE).await;
        pool.map_err(|_| "the connection to NATS was lost")?;
        let streams = ContextBuilder::new()
            .timeout(self.timeout())
            .ack_timeout(self.timeout())
            .max_ack_inflight(IN_FLIGHT_MAX)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Ok(Connection { client, streams, room: Semaphore::new(IN_FLIGHT_MAX) })
    }

    async fn connect_options(&self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new()
            .connection_timeout(self.options.connect_timeout)
            .max_reconnects(1)
            .ignore_discovered_servers()
            .reconnect_delay_callback(|_| Duration::ZERO)
            .name("pillarbox");
        if let Some(file) = &self.options.ca_file {
            // Who names certificates expects them to be checked: without this, a server that offers no TLS
            // would be accepted.
            options = options.add_root_certificates(file.clone()).require_tls(true);
        }
        let login = &self.login;
        if let Some(file) = &login.credentials_file {
            let read = options.credentials_file(file).await;
            return read.map_err(|error| format!("the credentials file can't be read: {}", error.kind()));
        }
        Ok(match (self.token().await?, &login.user, &login.password) {
            (Some(token), _, _) => options.token(token),
            (None, Some(user), Some(password)) => {
                options.user_and_password(user.clone(), password.reveal().to_owned())
            }
            (None, Some(token), None) => options.token(token.clone()),
            (None, None, _) => options,
        })
    }

    async fn token(&self) -> Result<Option<String>, String> {
        match &self.options.token {
            None => Ok(None),
            Some(TokenSource::Text(token)) => Ok(Some(token.reveal().to_owned())),
            // Read again for each connection, so a replaced file takes effect.
            Some(TokenSource::File(path)) => match read_token(path).await?.reveal() {
                "" => Err("the token is empty".to_owned()),
                token => Ok(Some(token.to_owned())),
            },
        }
    }

    /// Shorter than the timeout of a delivery, so that a slow broker still gives each event its own verdict.
    fn timeout(&self) -> Duration {
        self.options.timeout * 5 / 6
    }

    fn subject(&self, delivery: &Delivery) -> Result<String, String> {
        let subject = self.subject.render(&delivery.event, escaped).map_err(|error| error.to_string())?;
        // The author of an event must not reach the server's own subjects, which can delete streams.
        let own = subject.starts_with('$') || subject.starts_with("_INBOX");
        if own || subject.split('.').any(str::is_empty) {
            return Err("the subject made by the template is none that can be published to".to_owned());
        }
        Ok(subject)
    }

    /// Publishes in flights of pipelined messages, up to the first failure.
    async fn publish(&self, connection: &Connection, mut run: Vec<Message>) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(run.len());
        while let Some(first) = run.first()
            && verdicts.iter().all(|verdict| *verdict == Verdict::Accepted)
        {
            let sizes = run.iter().take(WINDOW_MAX).map(|message| message.size);
            // A window ends with the first message that may be refused, so nothing is published past it.
            let count = self.sizes.window(&first.subject, sizes);
            let rest = run.split_off(count);
            let window = std::mem::replace(&mut run, rest);
            // Nothing closes the semaphore, and a window never exceeds its permits.
            let _room = connection.room.acquire_many(window.len() as u32).await;
            verdicts.extend(self.publish_window(&connection.streams, window).await);
        }
        verdicts
    }

    async fn publish_window(&self, streams: &Context, window: Vec<Message>) -> Vec<Verdict> {
        let mut acknowledgements = Vec::with_capacity(window.len());
        let mut stopped = None;
        for Message { subject, size, message } in window {
            match streams.send_publish(subject.clone(), message).await {
                Ok(acknowledgement) => acknowledgements.push((subject, size, acknowledgement)),
                Err(error) => {
                    stopped = Some(verdict(&error));
                    break;
                }
            }
        }
        let mut verdicts = Vec::with_capacity(acknowledgements.len() + 1);
        for (subject, size, acknowledgement) in acknowledgements {
            verdicts.push(match acknowledgement.await {
                Ok(_) => {
                    self.sizes.taken(&subject, size);
                    Verdict::Accepted
                }
                Err(error) => verdict(&error),
            });
        }
        verdicts.extend(stopped);
        verdicts
    }
}

/// A user without a password is a token. What a file of credentials contains is not sent, except for a
/// signature.
fn check_cleartext(address: &Address, options: &SinkOptions) -> Result<(), SinkError> {
    let (what, is_secret) = match (&address.user, &options.token) {
        (_, Some(_)) => ("token", true),
        (user, None) => ("password or token in the sink's URL", user.is_some()),
    };
    let hosts = address.hosts.iter().map(|(host, _)| host.as_str());
    if is_secret { cleartext::check(hosts, options, what, "tls://") } else { Ok(()) }
}

/// The reason why connecting failed, without addresses or passwords.
fn unconnected(error: &ConnectError) -> Fault {
    let root = std::iter::successors(error.source(), |cause| (**cause).source()).take(8);
    let io = root.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).last();
    let cause = match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => Cause::Unauthorized,
        ConnectErrorKind::Dns => Cause::Dns,
        ConnectErrorKind::TimedOut => Cause::Timeout,
        ConnectErrorKind::Tls => Cause::Tls,
        _ => io.map(|error| cause_of(error.kind())).unwrap_or_default(),
    };
    let detail = io.map(|error| format!(" ({})", error.kind())).unwrap_or_default();
    Fault::new(cause, format!("no connection to NATS: {}{detail}", error.kind()))
}

/// Escapes a value for a subject. Wildcards and whitespace become `_`, and so do dots, except where the
/// template lets them separate tokens: a tenant named `victim.created` must not reach `victim`'s subjects.
fn escaped<'v>(_: &str, value: Value<'v>) -> Result<Cow<'v, str>, RenderError> {
    let may_have_dots = value.may_have_dots();
    let bad = |letter: char| {
        matches!(letter, '*' | '>')
            || letter.is_whitespace()
            || letter.is_control()
            || (letter == '.' && !may_have_dots)
    };
    let text = value.text;
    Ok(if text.contains(bad) { text.replace(bad, "_").into() } else { text.into() })
}

fn headers(encoded: &Encoded) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let content = [("content-type", encoded.content_type.as_str())].into_iter();
    for (name, value) in content.chain(encoded.headers.iter().map(|(name, value)| (&**name, &**value))) {
        let bad = || "a header of the event has no form in NATS".to_owned();
        headers.insert(
            HeaderName::from_str(name).map_err(|_| bad())?,
            HeaderValue::from_str(value).map_err(|_| bad())?,
        );
    }
    Ok(headers)
}

/// The size of the headers on the wire, without the part that is equal for all messages.
fn size_of(encoded: &Encoded) -> usize {
    const AROUND: usize = ": \r\n".len();
    let headers = encoded.headers.iter().map(|(name, value)| name.len() + value.len() + AROUND);
    encoded.content_type.len() + headers.sum::<usize>()
}

impl Courier for NatsSink {
    type Message<'a> = Message;

    fn prepare(&self, delivery: &Delivery) -> Result<Message, Verdict> {
        let subject = self.subject(delivery).map_err(rejected)?;
        let encoded = self.envelope.encode(delivery).map_err(rejected)?;
        let headers = headers(&encoded).map_err(rejected)?;
        let id = delivery.event.id().as_str();
        HeaderValue::from_str(id).map_err(|_| rejected("the event's id has no form in NATS"))?;
        let size = encoded.body.len() + id.len() + size_of(&encoded);
        let message = PublishMessage::build().payload(encoded.body).headers(headers).message_id(id);
        Ok(Message { subject, size, message })
    }

    fn together(&self, one: &Message, other: &Message) -> bool {
        one.subject == other.subject
    }

    async fn send(&self, run: Vec<Message>) -> Vec<Verdict> {
        let held = match self.connection.held(|| self.connect()).await {
            Ok(held) => held,
            Err(error) => return vec![unavailable(error)],
        };
        let Some(connection) = held.get() else { return Vec::new() };
        // One timeout for the whole run, not one per message.
        let sent = timeout(self.timeout(), self.publish(connection, run)).await;
        if sent.is_err() || connection.client.connection_state() != State::Connected {
            self.connection.give_up(&held);
        }
        sent.unwrap_or_else(|_| {
            vec![unavailable(Fault::new(Cause::Timeout, "NATS did not acknowledge in time"))]
        })
    }
}

fn verdict(error: &PublishError) -> Verdict {
    let of_stream = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    match (error.kind(), of_stream) {
        (PublishErrorKind::MaxPayloadExceeded, _) => {
            rejected("the message is larger than the server's max_payload")
        }
        (PublishErrorKind::StreamNotFound, _) => unavailable(Fault::new(Cause::Missing, NO_STREAM)),
        (PublishErrorKind::TimedOut, _) => {
            unavailable(Fault::new(Cause::Timeout, "NATS did not acknowledge in time"))
        }
        (_, Some(refusal)) if refusal.error_code() == TOO_LARGE_FOR_STREAM => {
            rejected("the message is larger than its stream allows")
        }
        (_, Some(refusal)) => unavailable(format!("the stream refused it: {}", said(&refusal.to_string()))),
        (kind, None) => unavailable(format!("NATS did not take it: {kind}")),
    }
}

impl Sink for NatsSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(courier::deliver(self, batch))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nothing to close: the client's task ends when the last handle is dropped.
        tracing::debug!(state = ?self.client.connection_state(), "a connection to NATS is given up");
    }
}
