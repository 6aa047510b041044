//! Opens a sink by the scheme of its URL.

use std::sync::Arc;

use pillarbox::port::Sink;

use crate::error::SinkError;
use crate::options::SinkOptions;

/// Maximum length of a URL, in bytes.
const URL_MAX: usize = 4_096;

/// The result of [`open`].
type Opened = Result<Arc<dyn Sink>, SinkError>;

/// Opens the sink of a URL. It connects with the first delivery, not here.
pub fn open(url: &str, options: &SinkOptions) -> Opened {
    if url.len() > URL_MAX {
        return Err(SinkError::url(format!("has {} bytes, and the maximum is {URL_MAX}", url.len())));
    }
    let (scheme, _) = url.split_once(':').ok_or_else(|| SinkError::url("has no scheme, such as `https:`"))?;
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => http(url, options),
        "webhook+https" | "webhook+http" => webhook(url, options),
        "stdout" => stdout(url, options),
        "kafka" => kafka(url, options),
        "nats" | "tls" => nats(url, options),
        "amqp" | "amqps" => rabbitmq(url, options),
        "redis" | "rediss" => redis(url, options),
        _ => Err(SinkError::Scheme { scheme: shown(scheme) }),
    }
}

/// Defines a function per feature that opens its sink, or fails if the feature is off.
macro_rules! opens {
    ($($feature:literal $name:ident => $open:expr;)*) => {$(
        #[cfg(feature = $feature)]
        fn $name(url: &str, options: &SinkOptions) -> Opened {
            let open: fn(&str, &SinkOptions) -> Opened = $open;
            open(url, options)
        }

        #[cfg(not(feature = $feature))]
        fn $name(url: &str, _: &SinkOptions) -> Opened {
            Err(not_built(url, $feature))
        }
    )*};
}

opens! {
    "http" http => |url, options| Ok(Arc::new(crate::http::BatchSink::open(url, options)?));
    "webhook" webhook => |url, options| Ok(Arc::new(crate::webhook::WebhookSink::open(url, options)?));
    "stdout" stdout => |_, options| Ok(Arc::new(crate::stdout::StdoutSink::open(options)?));
    "kafka" kafka => |url, options| Ok(Arc::new(crate::kafka::KafkaSink::open(url, options)?));
    "nats" nats => |url, options| Ok(Arc::new(crate::nats::NatsSink::open(url, options)?));
    "rabbitmq" rabbitmq => |url, options| Ok(Arc::new(crate::rabbitmq::RabbitMqSink::open(url, options)?));
    "redis" redis => |url, options| Ok(Arc::new(crate::redis::RedisSink::open(url, options)?));
}

#[cfg(not(all(
    feature = "http",
    feature = "kafka",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "stdout",
    feature = "webhook"
)))]
fn not_built(url: &str, feature: &'static str) -> SinkError {
    let scheme = url.split(':').next().unwrap_or_default();
    SinkError::NotBuilt { scheme: shown(scheme), feature }
}

/// The scheme for an error message. The text before the first colon may be anything, such as a user name, so
/// it is shown only if it looks like a scheme.
fn shown(scheme: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if scheme.len() <= 20 && scheme.bytes().all(plain) { scheme.to_owned() } else { "?".to_owned() }
}
