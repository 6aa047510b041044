//! Options of sinks: what a URL does not say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::egress::Egress;
use crate::envelope::Format;
use crate::secret::{Secret, TokenSource};

/// Options of a sink; each kind takes what it knows of.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    /// How events are put into requests and messages. Default: raw.
    pub format: Format,
    /// The `source` of CloudEvents. Default: `pillarbox`.
    pub source: String,
    /// A template for the path, topic, subject, routing key or stream. Default: by the kind of sink.
    pub destination: Option<String>,
    /// How long connecting may take. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long a request may take as a whole. Default: 30 s.
    pub timeout: Duration,
    /// The longest wait an endpoint can ask for. Default: 5 min.
    pub retry_after_max: Duration,
    /// How request bodies are compressed. Default: not.
    pub compression: Compression,
    /// How answers of a batch endpoint are read. Default: item by item.
    pub answers: Answers,
    /// How HTTP/2 is found. Default: negotiated with TLS.
    pub http2: Http2,
    /// The bearer token. Default: none.
    pub token: Option<TokenSource>,
    /// The secrets that webhooks are signed with, `whsec_…`; several while one follows another. Default: none.
    pub secrets: Vec<Secret>,
    /// Which addresses webhooks may go to. Default: public ones by https.
    pub egress: Egress,
    /// A proxy for the batch endpoint. Default: none; the environment is not asked.
    pub proxy: Option<Secret>,
    /// A file of PEM certificates to trust besides the system's. Default: none.
    pub ca_file: Option<PathBuf>,
    /// Settings that are passed on to a broker's client. Default: none.
    pub properties: BTreeMap<String, Secret>,
    /// Where the stdout sink writes. Default: nowhere; the program passes it in.
    #[cfg(feature = "stdout")]
    pub writer: Option<crate::stdout::LineWriter>,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            format: Format::Raw,
            source: "pillarbox".to_owned(),
            destination: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(300),
            compression: Compression::None,
            answers: Answers::ItemByItem,
            http2: Http2::Negotiated,
            token: None,
            secrets: Vec::new(),
            egress: Egress::default(),
            proxy: None,
            ca_file: None,
            properties: BTreeMap::new(),
            #[cfg(feature = "stdout")]
            writer: None,
        }
    }
}

/// How request bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

/// How answers of a batch endpoint are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// A body may say of each event how it went.
    #[default]
    ItemByItem,
    /// The status alone counts.
    ByStatus,
}

/// How HTTP/2 is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Http2 {
    /// Where the server offers it in the TLS handshake; else HTTP/1.1.
    #[default]
    Negotiated,
    /// Always: the server is known to speak it, without TLS too.
    PriorKnowledge,
}
