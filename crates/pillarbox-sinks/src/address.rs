//! Parses the URL of a broker: credentials, servers, destination and settings.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde::de::{IntoDeserializer as _, value};

use crate::cleartext;
use crate::envelope::Format;
use crate::error::SinkError;
use crate::options::SinkOptions;
use crate::secret::Secret;
use crate::template::Template;

/// Maximum number of servers in one URL.
const HOSTS_MAX: usize = 32;

/// A parsed URL. It does not implement `Debug`, because it may contain a password.
pub(crate) struct Address {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// Host names and ports; at least one.
    pub(crate) hosts: Vec<(String, u16)>,
    /// The path without its leading slash, still percent-encoded.
    path: String,
    query: BTreeMap<String, String>,
}

impl Address {
    /// Parses a URL. Template braces need no percent-encoding, unlike in a general URL parser.
    pub(crate) fn parse(url: &str, port: u16) -> Result<Self, SinkError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| SinkError::url("has no `://`"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = match authority.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, authority),
        };
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
            Some((user, password)) => (text(user)?, text(password)?),
            None => (String::new(), String::new()),
        };
        let hosts: Vec<_> = hosts.split(',').map(|host| server(host, port)).collect::<Result<_, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err(SinkError::url(format!("names more than {HOSTS_MAX} servers")));
        }
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: Some(user).filter(|user| !user.is_empty()),
            password: Some(password).filter(|password| !password.is_empty()).map(Secret::new),
            hosts,
            path: path.to_owned(),
            query: pairs(query)?,
        })
    }

    /// Refuses a password that would be sent without TLS to another machine.
    pub(crate) fn check_cleartext(
        &self,
        options: &SinkOptions,
        instead: &'static str,
    ) -> Result<(), SinkError> {
        if self.password.is_none() {
            return Ok(());
        }
        let hosts = self.hosts.iter().map(|(host, _)| host.as_str());
        cleartext::check(hosts, options, "password in the sink's URL", instead)
    }

    /// The path, decoded.
    pub(crate) fn path(&self) -> Result<String, SinkError> {
        text(&self.path)
    }

    /// Removes a setting from the query. [`Address::finish`] refuses the settings that no one has taken.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.query.remove(name)
    }

    /// Removes a numeric setting from the query.
    pub(crate) fn take_number<N: std::str::FromStr>(
        &mut self,
        name: &'static str,
    ) -> Result<Option<N>, SinkError> {
        let number = self.take(name).map(|text| text.parse());
        number
            .transpose()
            .map_err(|_| SinkError::option(name, "must be a whole number that is not too large"))
    }

    /// Settings for the broker's client: those of the options, overridden by `option.NAME` in the query.
    #[cfg(feature = "kafka")]
    pub(crate) fn take_properties(&mut self, options: &SinkOptions) -> BTreeMap<String, Secret> {
        let mut properties = options.properties.clone();
        let (ours, rest): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.query).into_iter().partition(|(name, _)| name.starts_with("option."));
        self.query = rest;
        let ours =
            ours.into_iter().map(|(name, value)| (name["option.".len()..].to_owned(), Secret::new(value)));
        properties.extend(ours);
        properties
    }

    /// The options, overridden by the settings of the URL. An unknown setting is an error.
    pub(crate) fn finish(mut self, options: &SinkOptions) -> Result<SinkOptions, SinkError> {
        let mut options = options.clone();
        if let Some(word) = self.take("format") {
            let known: Result<_, value::Error> = Format::deserialize(word.into_deserializer());
            options.format = known
                .map_err(|_| SinkError::option("format", "must be raw, cloudevents or cloudevents-binary"))?;
        }
        match self.query.keys().next() {
            // Not shown: a long name may be a secret value whose name is missing.
            Some(name) if name.len() > 40 => {
                Err(SinkError::url("has a setting that this sink does not know"))
            }
            Some(name) => Err(SinkError::url(format!("has a setting `{name}` that this sink does not know"))),
            None => Ok(options),
        }
    }
}

/// The template of the destination, from the URL or else from the options.
pub(crate) fn destination(
    said: Option<String>,
    options: &SinkOptions,
    what: &str,
) -> Result<Template, SinkError> {
    let said = said.filter(|text| !text.is_empty()).or_else(|| options.destination.clone());
    let said = said.ok_or_else(|| SinkError::url(format!("names no {what}")))?;
    Ok(Template::parse(&said)?)
}

/// Reads the certificates to trust when the sink is opened.
#[cfg(any(feature = "rabbitmq", feature = "redis"))]
pub(crate) fn certificates(options: &SinkOptions) -> Result<Option<String>, SinkError> {
    let read = options.ca_file.as_ref().map(std::fs::read_to_string).transpose();
    read.map_err(|error| SinkError::option("ca-file", format!("can't be read: {}", error.kind())))
}

fn server(host: &str, port: u16) -> Result<(String, u16), SinkError> {
    let bad = || SinkError::url("has a server that is not HOST or HOST:PORT");
    let (name, port) = match host.rsplit_once(':') {
        // In brackets is an IPv6 address, whose colons separate no port.
        Some((name, digits)) if !digits.ends_with(']') => (name, digits.parse().map_err(|_| bad())?),
        _ => (host, port),
    };
    let plain = |letter: char| letter.is_alphanumeric() || "-._[]:".contains(letter);
    if name.is_empty() || !name.chars().all(plain) { Err(bad()) } else { Ok((name.to_owned(), port)) }
}

fn pairs(query: &str) -> Result<BTreeMap<String, String>, SinkError> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut settings = BTreeMap::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if settings.insert(text(name)?, text(value)?).is_some() {
            return Err(SinkError::url("has a setting twice"));
        }
    }
    Ok(settings)
}

/// Decodes a percent-encoded text.
fn text(encoded: &str) -> Result<String, SinkError> {
    let bad = || SinkError::url("has a `%` without two hexadecimal digits, or bytes that are not UTF-8 text");
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        // `from_str_radix` alone would accept a sign, as in `%+1`.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or_else(bad)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_found() {
        let url = "amqp://me:p%40ss:w@one,two:7/%2f?routing-key={type|a}&exchange=e&format=cloudevents";
        let mut address = Address::parse(url, 5_672).unwrap_or_else(|_| panic!("no address"));
        assert_eq!((address.scheme.as_str(), address.user.as_deref()), ("amqp", Some("me")));
        assert_eq!(address.password.as_ref().map(Secret::reveal), Some("p@ss:w"));
        assert_eq!(address.hosts, [("one".to_owned(), 5_672), ("two".to_owned(), 7)]);
        assert_eq!(address.path().unwrap(), "/");
        assert_eq!(address.take("routing-key").as_deref(), Some("{type|a}"));
        assert_eq!(address.take("exchange").as_deref(), Some("e"));
        let options = address.finish(&SinkOptions::default()).unwrap_or_else(|_| panic!("no options"));
        assert_eq!(options.format, Format::CloudEventsStructured);
    }

    /// PBX-023
    #[test]
    fn what_is_wrong_is_told_without_the_url() {
        for url in [
            "canary",
            "nats://canary@:1/x",
            "nats://h:canary/x",
            "nats://h/x?a=%zz",
            "nats://h/x?a=%+1",
            "nats://h/x?canary-that-is-longer-than-any-setting-there-is=1",
            "nats://h/x?format=canary",
            "nats://h/x?a=canary&a=1",
        ] {
            let parsed = Address::parse(url, 1).and_then(|address| address.finish(&SinkOptions::default()));
            let Err(error) = parsed else { panic!("{url} passed") };
            assert!(!format!("{error} {error:?}").contains("canary"), "{url}: {error}");
        }
    }

    #[test]
    fn addresses_within_brackets_keep_their_colons() {
        assert_eq!(server("[::1]", 5).unwrap(), ("[::1]".to_owned(), 5));
        assert_eq!(server("[::1]:6", 5).unwrap(), ("[::1]".to_owned(), 6));
    }
}
