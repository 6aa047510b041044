//! Settings of the Kafka client: those that the delivery guarantees depend on, and those of the user.

use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::producer::FutureProducer;

use crate::address::Address;
use crate::cleartext;
use crate::error::SinkError;
use crate::options::SinkOptions;

/// Properties that a user may set. All others are closed: those that the guarantees depend on, those that run
/// a command or load code (`sasl.kerberos.kinit.cmd`, `ssl.engine.location`), and those that turn checks of
/// the server's certificate off.
const OPEN: [&str; 43] = [
    "batch.num.messages",
    "batch.size",
    "client.id",
    "client.rack",
    "compression.codec",
    "compression.level",
    "compression.type",
    "linger.ms",
    "message.max.bytes",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.sigalgs.list",
];

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
    check_cleartext(address, options, &config)?;
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

/// Refuses secrets that would be sent without TLS to another machine: passwords, tokens, and the client
/// secret for which an endpoint issues tokens. SCRAM does not send its password.
fn check_cleartext(address: &Address, options: &SinkOptions, config: &ClientConfig) -> Result<(), SinkError> {
    let is = |name: &str, word: &str| config.get(name).is_some_and(|set| set.eq_ignore_ascii_case(word));
    let has_tls = is("security.protocol", "ssl") || is("security.protocol", "sasl_ssl");
    // Two names of one property: which of them counts is up to librdkafka.
    let mechanisms = ["sasl.mechanisms", "sasl.mechanism"].map(|name| config.get(name));
    let mut mechanisms = mechanisms.into_iter().flatten().map(str::to_ascii_uppercase);
    let is_scram =
        mechanisms.clone().all(|name| name.starts_with("SCRAM-")) && mechanisms.clone().count() > 0;
    let hosts = || address.hosts.iter().map(|(host, _)| host.as_str());
    let instead = "security.protocol=sasl_ssl";
    if mechanisms.any(|name| name == "OAUTHBEARER") {
        check_token_endpoint(options, config)?;
        if !has_tls {
            cleartext::check(hosts(), options, "token for Kafka", instead)?;
        }
    }
    let is_secret = config.get("sasl.password").is_some() && !is_scram;
    if has_tls || !is_secret {
        return Ok(());
    }
    cleartext::check(hosts(), options, "password for Kafka", instead)
}

/// Refuses an endpoint of tokens that would get the client secret without TLS. An endpoint whose host can't
/// be told counts as another machine.
fn check_token_endpoint(options: &SinkOptions, config: &ClientConfig) -> Result<(), SinkError> {
    let Some(endpoint) = config.get("sasl.oauthbearer.token.endpoint.url") else { return Ok(()) };
    if endpoint.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return Ok(());
    }
    let uri = endpoint.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    cleartext::check([host], options, "client secret for the token endpoint of Kafka", "https://")
}

/// Fails early if the client can't be created. The client's own error is dropped, because it may contain the
/// value.
fn tried(config: ClientConfig) -> Result<ClientConfig, SinkError> {
    let made: Result<FutureProducer, _> = config.create();
    let reason = "the client of Kafka can't be made with these options: TLS and SCRAM need a build of librdkafka with OpenSSL";
    made.map(|_| config).map_err(|_| SinkError::option("properties", reason))
}

fn is_open(name: &str) -> bool {
    OPEN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PBX-159
    #[test]
    fn what_the_guarantees_rest_on_and_what_runs_commands_can_not_be_set() {
        for name in [
            "acks",
            "bootstrap.servers",
            "delivery.timeout.ms",
            "enable.idempotence",
            "message.timeout.ms",
            "plugin.library.paths",
            "request.required.acks",
            "retries",
            "enable.ssl.certificate.verification",
            "sasl.kerberos.keytab",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.principal",
            "sasl.oauthbearer.unknown",
            "ssl.endpoint.identification.algorithm",
            "ssl.engine.location",
            "ssl.providers",
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

    /// PBX-152
    #[test]
    fn a_password_goes_out_without_tls_to_this_machine_only() {
        let open = |url: &str| {
            let mut address = Address::parse(url, 1).unwrap_or_else(|_| panic!("no address"));
            of(&mut address, &SinkOptions::default(), Duration::from_secs(1)).map(drop)
        };
        let plain = "option.security.protocol=sasl_plaintext&option.sasl.mechanisms=PLAIN&option.sasl.username=u&option.sasl.password=p";
        let refused = open(&format!("kafka://example.com/t?{plain}"));
        assert!(matches!(refused, Err(SinkError::Cleartext { .. })));
        assert!(!matches!(open(&format!("kafka://localhost/t?{plain}")), Err(SinkError::Cleartext { .. })));
        assert!(!matches!(open("kafka://u:p@example.com/t"), Err(SinkError::Cleartext { .. })));
    }

    /// PBX-152
    #[test]
    fn tokens_and_client_secrets_go_out_without_tls_to_this_machine_only() {
        let is_refused = |host: &str, protocol: &str, endpoint: &str| {
            let url = format!(
                "kafka://{host}/t?option.security.protocol={protocol}&option.sasl.mechanisms=OAUTHBEARER\
                 &option.sasl.oauthbearer.method=oidc&option.sasl.oauthbearer.client.id=u\
                 &option.sasl.oauthbearer.client.secret=canary&option.sasl.oauthbearer.token.endpoint.url={endpoint}"
            );
            let mut address = Address::parse(&url, 1).unwrap_or_else(|_| panic!("no address"));
            let opened = of(&mut address, &SinkOptions::default(), Duration::from_secs(1)).map(drop);
            let text = format!("{opened:?}");
            assert!(!text.contains("canary"), "{text}");
            matches!(opened, Err(SinkError::Cleartext { .. }))
        };
        let (here, there) = ("http://localhost:8080/token", "http://login.example.com/token");
        assert!(is_refused("example.com", "sasl_plaintext", "https://login.example.com/token"));
        assert!(is_refused("example.com", "sasl_ssl", there));
        assert!(is_refused("localhost", "sasl_plaintext", there));
        assert!(is_refused("localhost", "sasl_plaintext", "login.example.com/token"), "not told");
        assert!(!is_refused("localhost", "sasl_plaintext", here));
        assert!(!is_refused("example.com", "sasl_ssl", "HTTPS://login.example.com/token"));
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
