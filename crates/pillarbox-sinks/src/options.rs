//! Options of a sink that its URL does not contain.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::egress::Egress;
use crate::envelope::Format;
use crate::secret::{Secret, TokenSource};

/// The default `source` of CloudEvents.
pub(crate) const SOURCE: &str = "pillarbox";

/// Options of a sink. Each sink uses the options that apply to it.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// The format of requests and messages. Default: raw.
    pub format: Format,
    /// The `source` attribute of CloudEvents. Default: `pillarbox`.
    pub source: String,
    /// The template of the path, topic, subject, routing key or stream. The default depends on the sink.
    pub destination: Option<String>,
    /// Timeout of connecting. Default: 10 s.
    pub connect_timeout: Duration,
    /// Timeout of a request, including its response. Default: 30 s.
    pub timeout: Duration,
    /// Maximum delay that a Retry-After header can ask for. Default: 5 min.
    pub retry_after_max: Duration,
    /// Compression of request bodies. Default: none.
    pub compression: Compression,
    /// How responses of a batch endpoint are read. Default: item by item.
    pub answers: Answers,
    /// Whether errors quote the text of an endpoint's answer. Default: yes.
    pub keep_answers: KeepAnswers,
    /// When HTTP/2 is used. Default: negotiated with TLS.
    pub http2: Http2,
    /// The bearer token. Default: none.
    pub token: Option<TokenSource>,
    /// The secrets that sign webhooks, each `whsec_…`; more than one during a rotation. Default: none.
    pub secrets: Vec<Secret>,
    /// The addresses that webhooks may be sent to. Default: public addresses by https.
    pub egress: Egress,
    /// The proxy for the batch endpoint. Default: none; proxy variables of the environment are ignored.
    pub proxy: Option<Secret>,
    /// Whether tokens and passwords may be sent without TLS to other machines. Default: no.
    pub allow_cleartext: bool,
    /// A file of PEM certificates to trust in addition to the system's. Default: none.
    pub ca_file: Option<PathBuf>,
    /// Settings passed to the broker's client. Default: none.
    pub properties: BTreeMap<String, Secret>,
    /// The writer of the stdout sink, which needs one. Default: none.
    #[cfg(feature = "stdout")]
    pub writer: Option<crate::stdout::LineWriter>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            format: Format::Raw,
            source: SOURCE.to_owned(),
            destination: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(300),
            compression: Compression::None,
            answers: Answers::ItemByItem,
            keep_answers: KeepAnswers::Text,
            http2: Http2::Negotiated,
            token: None,
            secrets: Vec::new(),
            egress: Egress::default(),
            proxy: None,
            allow_cleartext: false,
            ca_file: None,
            properties: BTreeMap::new(),
            #[cfg(feature = "stdout")]
            writer: None,
        }
    }
}

/// Compression of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Compress with gzip.
    Gzip,
    /// Compress with zstd.
    Zstd,
}

/// How responses of a batch endpoint are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// The body may contain a result for each event.
    #[default]
    ItemByItem,
    /// Only the status code counts.
    ByStatus,
}

/// Whether an error keeps the text of the endpoint's answer, which may quote the event. Either way the log
/// shows only the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepAnswers {
    /// The beginning of the text is kept with the event.
    #[default]
    Text,
    /// Only the status is kept.
    None,
}

/// When HTTP/2 is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Http2 {
    /// If the server offers it in the TLS handshake; otherwise HTTP/1.1.
    #[default]
    Negotiated,
    /// Always, even without TLS. The server must support it.
    PriorKnowledge,
}
