//! Posts the events of a batch one after another, up to the first that is not accepted.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use pillarbox::port::{Delivery, Handed, Sink, Verdict};
use reqwest::Url;

use super::signature::{Signer, signed_id};
use crate::egress::Egress;
use crate::envelope::{Binding, Envelope};
use crate::error::SinkError;
use crate::options::{Compression, SinkOptions};
use crate::template::Template;
use crate::transport::{Blame, Client, Post, Schemes, Target, path_template};

/// Prefix of the scheme, which is removed to get the URL of the endpoint.
const PREFIX: &str = "webhook+";
/// Maximum bytes of a response that are read. Only error texts show them.
const ANSWER_MAX: usize = 4 * 1024;

/// Posts each event in its own request, signed according to Standard Webhooks.
pub struct WebhookSink {
    client: Client,
    target: Target,
    path: Option<Template>,
    envelope: Envelope,
    signer: Signer,
}

impl WebhookSink {
    /// Opens the sink of a URL such as `webhook+https://example.com/in/{type}`. The part after the host is a
    /// template.
    pub fn open(url: &str, options: &SinkOptions) -> Result<Self, SinkError> {
        let url = match url.split_at_checked(PREFIX.len()) {
            Some((prefix, url)) if prefix.eq_ignore_ascii_case(PREFIX) => url,
            _ => url,
        };
        let egress = Arc::new(options.egress.clone());
        let schemes = if egress.plain_http { Schemes::Any } else { Schemes::Https };
        let target = Target::parse(url, schemes)?;
        check_egress(target.url(), &egress)?;
        let unfit = |option, reason: &str| Err(SinkError::option(option, reason));
        if options.proxy.is_some() {
            return unfit("proxy", "a webhook takes none: behind one, egress rules could not be kept");
        }
        if options.compression != Compression::None {
            return unfit("compression", "a webhook is signed as it is read, so it is not compressed");
        }
        if options.destination.is_some() {
            return unfit("destination", "write the places of a webhook's path into its URL");
        }
        Ok(Self {
            path: rest_of(url).map(path_template).transpose()?,
            client: Client::new(target.url(), options, Some(egress))?,
            target,
            envelope: Envelope::new(options.format, Binding::Http, &options.source),
            signer: Signer::new(&options.secrets)?,
        })
    }

    /// Encodes and signs the request of an event. An error is the event's own fault.
    fn request(&self, delivery: &Delivery, now: Timestamp) -> Result<Post, String> {
        let url = match &self.path {
            Some(template) => self.target.rendered(template, &delivery.event)?,
            None => self.target.url().clone(),
        };
        let encoded = self.envelope.encode(delivery)?;
        let id = signed_id(delivery.event.id().as_str());
        let timestamp = now.as_second();
        let signature = self.signer.sign(&id, timestamp, &encoded.body);
        let mut headers = HeaderMap::new();
        for (name, value) in
            encoded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).chain([
                (CONTENT_TYPE.as_str(), encoded.content_type.as_str()),
                ("webhook-id", &id),
                ("webhook-timestamp", &timestamp.to_string()),
                ("webhook-signature", &signature),
            ])
        {
            let bad = || format!("the header {name} can't be sent");
            let key = HeaderName::try_from(name).map_err(|_| bad())?;
            headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad())?);
        }
        Ok(Post { url, headers, body: encoded.body.into(), answer_max: ANSWER_MAX })
    }

    async fn post(&self, delivery: &Delivery) -> Verdict {
        let post = match self.request(delivery, Timestamp::now()) {
            Ok(post) => post,
            Err(error) => return Verdict::Rejected { error },
        };
        let answer = match self.client.post(&post).await {
            Ok(answer) => answer,
            Err(fault) => return fault.verdict(),
        };
        let after = answer.after;
        match Blame::of(answer.status, answer.after) {
            Blame::None => Verdict::Accepted,
            Blame::Items => Verdict::Failed { error: answer.error(), after },
            Blame::TooLarge => Verdict::Rejected { error: answer.error() },
            Blame::Endpoint => answer.unavailable(answer.error()),
            Blame::Throttled => Verdict::Throttled { error: answer.error(), after },
        }
    }

    async fn send(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let verdict = self.post(delivery).await;
            let accepted = verdict == Verdict::Accepted;
            verdicts.push(verdict);
            // A rejected event may block its group, so nothing is sent past it.
            if !accepted {
                break;
            }
        }
        verdicts.resize(batch.len(), Verdict::Skipped);
        verdicts
    }
}

impl Sink for WebhookSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> Handed<'a> {
        Box::pin(self.send(batch))
    }
}

/// Checks the port and a literal IP address of the URL. The resolver, which checks host names, never sees
/// these.
fn check_egress(url: &Url, egress: &Egress) -> Result<(), SinkError> {
    let port = url.port_or_known_default().unwrap_or_default();
    if !egress.allows_port(port) {
        return Err(SinkError::url(format!("has the port {port}, which egress rules do not allow")));
    }
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => {
            egress.check(address).map_err(|blocked| SinkError::url(format!("leads nowhere: {blocked}")))
        }
        Err(_) => Ok(()),
    }
}

/// The part after the host, if it contains template places.
fn rest_of(url: &str) -> Option<&str> {
    let (_, after) = url.split_once("://")?;
    let rest = &after[after.find(['/', '?'])?..];
    rest.contains(['{', '}']).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: &str) -> bool {
        // A form that is no address of a URL at all leads nowhere either.
        let Ok(url) = Url::parse(&format!("https://{host}/x")) else { return true };
        check_egress(&url, &Egress::default()).is_err()
    }

    /// The ways in which a URL can spell an IPv4 address.
    fn spellings(address: [u8; 4]) -> Vec<String> {
        let [a, b, c, d] = address;
        let number = u32::from_be_bytes(address);
        let low = u32::from_be_bytes([0, b, c, d]);
        vec![
            format!("{a}.{b}.{c}.{d}"),
            format!("{a}.{b}.{c}.{d}."),
            format!("{number}"),
            format!("0x{number:x}"),
            format!("0X{number:X}"),
            format!("0{number:o}"),
            format!("{a}.{low}"),
            format!("{a}.{b}.{}", u16::from_be_bytes([c, d])),
            format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
            format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
            format!("%{:02x}{}.{b}.{c}.{d}", a.to_string().as_bytes()[0], &a.to_string()[1..]),
            format!("[::ffff:{a}.{b}.{c}.{d}]"),
            format!("[::{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b::{a}.{b}.{c}.{d}]"),
            format!("[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::]"),
        ]
    }

    /// PBX-023
    #[test]
    fn addresses_in_a_url_are_judged_however_they_are_spelt() {
        let bad = [
            [127, 0, 0, 1],
            [10, 0, 0, 1],
            [172, 16, 0, 1],
            [192, 168, 1, 1],
            [169, 254, 169, 254],
            [100, 64, 0, 1],
            [0, 0, 0, 0],
            [224, 0, 0, 1],
            [255, 255, 255, 255],
            [192, 0, 2, 1],
        ];
        for spelling in bad.into_iter().flat_map(spellings) {
            assert!(refused(&spelling), "{spelling}");
        }
        for odd in [
            "①②⑦.0.0.1",
            "127。0。0。1",
            "127.1",
            "127.0.1",
            "0",
            "0x7f000001",
            "[::1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
        ] {
            assert!(refused(odd), "{odd}");
        }
        for good in ["8.8.8.8", "134744072", "[2606:4700:4700::1111]", "example.com"] {
            assert!(!refused(good), "{good}");
        }
        assert!(refused("example.com:22"));
    }

    #[test]
    fn only_what_follows_the_host_is_a_template() {
        assert_eq!(rest_of("https://h/a/{type}?x={id}"), Some("/a/{type}?x={id}"));
        assert_eq!(rest_of("https://h/a"), None);
        assert_eq!(rest_of("https://h"), None);
        let options = SinkOptions {
            secrets: vec![crate::secret::Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
            ..SinkOptions::default()
        };
        for good in ["webhook+https://h/{type}", "WebHook+HTTPS://h/{type}", "https://h"] {
            assert!(WebhookSink::open(good, &options).is_ok(), "{good}");
        }
        for bad in
            ["webhook+https://{tenant}.example.com/", "webhook+https://h?x={type}", "webhook+http://h/"]
        {
            assert!(WebhookSink::open(bad, &options).is_err(), "{bad}");
        }
    }
}
