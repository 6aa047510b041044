//! The Redis Streams sink: an entry is delivered when Redis, and optionally its replicas, have confirmed it.

use std::time::Duration;

use pillarbox::model::GroupKey;
use pillarbox::port::{Cause, Delivery, Handed, Sink, Verdict};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisError, TlsCertificates,
};
use tokio::time::timeout;

use crate::address::{Address, certificates, destination};
use crate::courier::{self, Courier, rejected, said, unavailable};
use crate::envelope::{Binding, Encoded, Envelope};
use crate::error::SinkError;
use crate::fault::Fault;
use crate::lazy_connection::LazyConnection;
use crate::options::SinkOptions;
use crate::template::Template;
use crate::tls::ensure_tls_provider;

const PORT: u16 = 6_379;
/// The error for a key that has another type than the command works on.
const WRONG_TYPE: &str = "WRONGTYPE";
/// The largest value that Redis accepts by default. A larger one would close the connection.
const VALUE_MAX: usize = 512 * 1024 * 1024;
/// Maximum number of unanswered requests on one connection.
const IN_FLIGHT_MAX: usize = 1_024;

/// Adds events to Redis streams.
///
/// The URL is `redis://[USER:PASSWORD@]HOST[:PORT]/DATABASE?stream=STREAM`, or `rediss://…`. The stream is a
/// [`Template`], and begins with a text if it has places. Settings: `maxlen` is the approximate number of entries that a stream keeps, `wait` the
/// number of replicas that must have an entry; `format`.
///
/// Redis does not deduplicate: a redelivery after a lost answer is stored twice.
pub struct RedisSink {
    connection: LazyConnection<MultiplexedConnection>,
    client: Client,
    stream: Template,
    maxlen: Option<u64>,
    replicas: u32,
    envelope: Envelope,
    options: SinkOptions,
}

/// An entry with its stream.
pub(crate) struct Entry {
    stream: String,
    add: Cmd,
}

impl RedisSink {
    /// Opens the sink of a URL. It connects with the first delivery.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let mut address = Address::parse(url, PORT)?;
        let stream = destination(address.take("stream"), options, "stream: add `?stream=`")?;
        // Otherwise the author of an event could name any key of the database.
        if !stream.is_constant() && !stream.has_prefix() {
            let reason = "names its stream by the event alone: begin it with a text of your own, as in `stream=events:{type}`";
            return Err(SinkError::url(reason));
        }
        let maxlen = address.take_number("maxlen")?;
        if maxlen.is_some() {
            tracing::warn!(
                "the stream is trimmed by maxlen: entries that nobody has read yet are deleted too"
            );
        }
        let replicas = address.take_number("wait")?.unwrap_or(0);
        if address.scheme != "rediss" {
            address.check_cleartext(options, "rediss://")?;
        }
        let client = client(&address, certificates(options)?)?;
        let options = address.finish(options)?;
        let envelope = Envelope::new(options.format, Binding::Kafka, options.source.clone());
        Ok(Self { connection: LazyConnection::new(), client, stream, maxlen, replicas, envelope, options })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Fault> {
        ensure_tls_provider();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.options.connect_timeout))
            .set_response_timeout(Some(self.timeout()))
            .set_concurrency_limit(IN_FLIGHT_MAX);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await;
        let mut connection = connection.map_err(|error| reason(&error).during("no connection to Redis"))?;
        warn_of_eviction(&mut connection).await;
        Ok(connection)
    }

    /// Shorter than the timeout of a delivery, so that a slow server still gives each event its own verdict.
    fn timeout(&self) -> Duration {
        self.options.timeout * 5 / 6
    }

    fn add(&self, stream: &str, delivery: &Delivery, encoded: &Encoded) -> Cmd {
        let event = &delivery.event;
        let mut add = Cmd::new();
        add.arg("XADD").arg(stream);
        if let Some(maxlen) = self.maxlen {
            add.arg("MAXLEN").arg("~").arg(maxlen);
        }
        add.arg("*").arg("id").arg(event.id().as_str()).arg("type").arg(event.event_type());
        if let Some(group) = GroupKey::of(event) {
            add.arg("group").arg(group.as_str());
        }
        add.arg("content-type").arg(&encoded.content_type).arg("payload").arg(&encoded.body[..]);
        for (name, value) in &encoded.headers {
            // The prefix prevents a header from replacing one of the fields above.
            add.arg(format!("header:{name}")).arg(value);
        }
        add
    }

    /// Adds a run in one transaction: all entries or none, so that an entry is never added without those
    /// before it.
    async fn add_all(&self, connection: &MultiplexedConnection, run: Vec<Entry>) -> Result<usize, Fault> {
        let mut connection = connection.clone();
        let mut pipeline = Pipeline::with_capacity(run.len());
        pipeline.atomic();
        run.into_iter().for_each(|entry| {
            pipeline.add_command(entry.add);
        });
        let added: Vec<String> =
            pipeline.query_async(&mut connection).await.map_err(|error| reason(&error))?;
        if self.replicas > 0 {
            let wait_ms = self.timeout().as_millis().min(u128::from(u32::MAX)) as u64 / 2;
            let mut wait = Cmd::new();
            wait.arg("WAIT").arg(self.replicas).arg(wait_ms);
            let reached: u32 = wait.query_async(&mut connection).await.map_err(|error| reason(&error))?;
            if reached < self.replicas {
                return Err(format!("{reached} of {} replicas have it", self.replicas).into());
            }
        }
        Ok(added.len())
    }
}

fn client(address: &Address, trusted: Option<String>) -> Result<Client, SinkError> {
    let [(host, port)] = &address.hosts[..] else {
        return Err(SinkError::url("names several servers, and Redis is one"));
    };
    let (host, port) = (host.trim_matches(['[', ']']).to_owned(), *port);
    let place = if address.scheme == "rediss" {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let database = address.path()?;
    let database: i64 = if database.is_empty() { Ok(0) } else { database.parse() }
        .map_err(|_| SinkError::url("has a path that is not the number of a database"))?;
    let mut settings = RedisConnectionInfo::default().set_db(database);
    if let Some(user) = &address.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &address.password {
        settings = settings.set_password(password.reveal());
    }
    let info = place.into_connection_info().map(|info| info.set_redis_settings(settings));
    let opened = info.and_then(|info| match trusted.map(String::into_bytes) {
        root_cert @ Some(_) => Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert }),
        None => Client::open(info),
    });
    opened.map_err(|_| SinkError::url("can't be used for Redis"))
}

/// Warns if Redis may evict keys of any kind, because it could evict a stream with unread entries.
async fn warn_of_eviction(connection: &mut MultiplexedConnection) {
    let mut ask = Cmd::new();
    ask.arg("INFO").arg("memory");
    // A user without the right to run INFO gets no warning.
    let answer: Result<String, _> = ask.query_async(connection).await;
    if answer.is_ok_and(|memory| evicts(&memory)) {
        tracing::warn!("Redis may evict streams to make room: set maxmemory-policy to noeviction");
    }
}

fn evicts(memory: &str) -> bool {
    let value = |name: &str| memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let bounded = value("maxmemory").is_some_and(|bytes| bytes.trim() != "0");
    bounded && value("maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys"))
}

/// The class and text of an error, without addresses or passwords.
fn reason(error: &RedisError) -> Fault {
    let of_command = error.clone().into_server_errors();
    if let Some((_, first)) = of_command.as_deref().and_then(|errors| errors.first()) {
        let text = format!("{} {}", first.code(), first.details().unwrap_or_default());
        return Fault::new(cause_of_code(first.code()), said(&text));
    }
    match error.code() {
        Some(code) => {
            Fault::new(cause_of_code(code), said(&format!("{code} {}", error.detail().unwrap_or_default())))
        }
        None if error.is_timeout() => Fault::new(Cause::Timeout, "no answer in time"),
        None if error.is_connection_refusal() => Fault::new(Cause::Refused, "connection refused"),
        None if error.kind() == ErrorKind::AuthenticationFailed => {
            Fault::new(Cause::Unauthorized, said(error.category()))
        }
        None => said(error.category()).into(),
    }
}

fn cause_of_code(code: &str) -> Cause {
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Cause::Unauthorized,
        _ => Cause::Other,
    }
}

impl Courier for RedisSink {
    type Message<'a> = Entry;

    fn prepare(&self, delivery: &Delivery) -> Result<Entry, Verdict> {
        let stream =
            self.stream.render_plain(&delivery.event).map_err(|error| rejected(error.to_string()))?;
        let encoded = self.envelope.encode(delivery).map_err(rejected)?;
        if encoded.body.len() > VALUE_MAX {
            return Err(rejected("the payload is larger than a value of Redis can be"));
        }
        let add = self.add(&stream, delivery, &encoded);
        Ok(Entry { stream, add })
    }

    fn together(&self, one: &Entry, other: &Entry) -> bool {
        one.stream == other.stream
    }

    async fn send(&self, run: Vec<Entry>) -> Vec<Verdict> {
        let held = match self.connection.held(|| self.connect()).await {
            Ok(held) => held,
            Err(error) => return vec![unavailable(error)],
        };
        let Some(connection) = held.get() else { return Vec::new() };
        let added = timeout(self.timeout(), self.add_all(connection, run)).await;
        match added.unwrap_or_else(|_| Err(Fault::new(Cause::Timeout, "no answer in time"))) {
            Ok(added) => vec![Verdict::Accepted; added],
            // The event has named a key that is not a stream. Redis has added nothing of the run.
            Err(fault) if !self.stream.is_constant() && fault.error.starts_with(WRONG_TYPE) => {
                vec![rejected(format!("the key made by the template is not a stream: {}", fault.error))]
            }
            Err(fault) => {
                self.connection.give_up(&held);
                vec![unavailable(fault.during("Redis did not take it"))]
            }
        }
    }
}

impl Sink for RedisSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(courier::deliver(self, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_evicts_streams_is_warned_of() {
        let memory =
            |bytes, policy| format!("# Memory\r\nmaxmemory:{bytes}\r\nmaxmemory_policy:{policy}\r\n");
        assert!(evicts(&memory(1_000, "allkeys-lru")));
        assert!(!evicts(&memory(1_000, "volatile-lru")));
        assert!(!evicts(&memory(1_000, "noeviction")));
        assert!(!evicts(&memory(0, "allkeys-lru")));
        assert!(!evicts(""));
    }
}
