//! Settings of the Kafka client: those that the delivery guarantees depend on, and those of the user.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::FutureProducer;

use crate::address::Address;
use crate::error::SinkError;
use crate::options::SinkOptions;

/// Properties that a user may set. A name that ends with a dot is a prefix.
const OPEN: [&str; 14] = [
    "batch.num.messages",
    "batch.size",
    "client.id",
    "client.rack",
    "compression.",
    "linger.ms",
    "message.max.bytes",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "sasl.",
    "security.protocol",
    "socket.",
    "ssl.",
];
/// Properties that would load code, so they can't be set.
const CLOSED: [&str; 2] = ["ssl.engine.location", "ssl.providers"];

/// The client's settings for an address. They are checked by creating a client.
pub(super) fn of(
    address: &mut Address,
    options: &SinkOptions,
    timeout: Duration,
) -> Result<ClientConfig, SinkError> {
    let servers: Vec<_> = address.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
    let mut config = ClientConfig::new();
    for (name, value) in [
        ("client.id", "pillarbox"),
        // Without a delay the producer would send each record in a request of its own.
        ("linger.ms", "2"),
        // Limits of the producer's queue in memory.
        ("queue.buffering.max.messages", "100000"),
        ("queue.buffering.max.kbytes", "65536"),
        // The same partition per key as the Java client.
        ("partitioner", "murmur2"),
    ] {
        config.set(name, value);
    }
    if let (Some(user), Some(password)) = (&address.user, &address.password) {
        config.set("security.protocol", "sasl_ssl").set("sasl.mechanisms", "PLAIN");
        config.set("sasl.username", user).set("sasl.password", password.reveal());
    }
    if let Some(file) = &options.ca_file {
        config.set("ssl.ca.location", file.to_string_lossy());
    }
    for (name, value) in address.take_properties(options) {
        if !is_open(&name) {
            let reason = "an `option.` of Kafka is unknown or can't be set: see the guide for those that can";
            return Err(SinkError::option("properties", reason));
        }
        config.set(name, value.reveal());
    }
    config.set("bootstrap.servers", servers.join(","));
    config.set("enable.idempotence", "true").set("acks", "all");
    // A record that is refused for good also fails the records after it, instead of letting them pass.
    config.set("enable.gapless.guarantee", "true");
    let ms = |time: Duration| time.as_millis().clamp(1_000, 600_000).to_string();
    config.set("delivery.timeout.ms", ms(timeout));
    config.set("topic.metadata.propagation.max.ms", ms(timeout / 5));
    config.set("socket.connection.setup.timeout.ms", ms(options.connect_timeout));
    tried(config)
}

/// Fails early if the client can't be created. The client's own error is dropped, because it may contain the
/// value.
fn tried(config: ClientConfig) -> Result<ClientConfig, SinkError> {
    let made: Result<FutureProducer, _> = config.create();
    let reason = "the client of Kafka can't be made with these options: TLS and SCRAM need a build of librdkafka with OpenSSL";
    made.map(|_| config).map_err(|_| SinkError::option("properties", reason))
}

fn is_open(name: &str) -> bool {
    let matches = |open: &str| name == open || (open.ends_with('.') && name.starts_with(open));
    OPEN.into_iter().any(matches) && !CLOSED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guarantees_rest_on_can_not_be_set() {
        for name in [
            "acks",
            "bootstrap.servers",
            "delivery.timeout.ms",
            "enable.idempotence",
            "message.timeout.ms",
            "plugin.library.paths",
            "request.required.acks",
            "retries",
            "ssl.engine.location",
            "transactional.id",
        ] {
            assert!(!is_open(name), "{name}");
        }
        assert!(["sasl.username", "security.protocol", "compression.type"].into_iter().all(is_open));
    }

    /// PBX-023
    #[test]
    fn a_bad_option_is_told_without_its_value() {
        for url in ["kafka://h/t?option.acks=canary", "kafka://h/t?option.security.protocol=canary"] {
            let mut address = Address::parse(url, 1).unwrap_or_else(|_| panic!("no address"));
            let Err(error) = of(&mut address, &SinkOptions::default(), Duration::from_secs(1)) else {
                panic!("{url} passed");
            };
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    /// PBX-010
    #[test]
    fn the_producer_keeps_order_and_waits_for_all() {
        let mut address = Address::parse("kafka://a,b:1/t", 9_092).unwrap_or_else(|_| panic!("no address"));
        let config = of(&mut address, &SinkOptions::default(), Duration::from_secs(25)).unwrap();
        assert_eq!(config.get("bootstrap.servers"), Some("a:9092,b:1"));
        assert_eq!(config.get("acks"), Some("all"));
        assert_eq!(config.get("enable.idempotence"), Some("true"));
        assert_eq!(config.get("delivery.timeout.ms"), Some("25000"));
    }
}
