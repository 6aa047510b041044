//! Configuration: one set of keys from a file, variables and flags, checked whole before anything starts.

mod document;
mod key;
mod keys;
mod layers;
mod pages;
mod problem;
mod resolve;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox::engine::{OnDead, Ungrouped};
use pillarbox::model::{Layout, TableName};
use pillarbox::port::OnDone;
use pillarbox::rules::Lease;

pub use key::{Form, Key, Scope, Section};
pub use keys::KEYS;
pub use layers::ShownKey;
pub use pages::{default_file, json_schema, reference};
pub use problem::{Origin, Problem, Problems};

use crate::secret::Secret;
use document::{Document, unknown};
use key::Scope::Place;
use layers::{Layer, place, problem};
use resolve::Resolver;

/// The name of the one source where no `[[source]]` names any.
const ONLY_SOURCE: &str = "default";

/// What a relay is made of.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// What is drained, each to its sink.
    pub sources: Vec<SourceConfig>,
    /// The admin server, if there is one.
    pub admin: Option<AdminConfig>,
    /// Where metrics are pushed, if anywhere.
    pub otlp: Option<OtlpConfig>,
    /// A label for people.
    pub label: Option<String>,
    /// How the log is written.
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON document a line.
    Json,
}

/// Where the relay shows its state.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Where it listens.
    pub address: SocketAddr,
    /// What callers must know.
    pub token: Option<Secret>,
}

/// Where metrics are pushed by OpenTelemetry.
#[derive(Debug, Clone)]
pub struct OtlpConfig {
    /// The URL that they are posted to.
    pub url: Secret,
    /// What every request carries.
    pub headers: BTreeMap<String, Secret>,
    /// How often.
    pub interval: Duration,
}

/// One database and where its events go.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// What it is called.
    pub name: String,
    /// Whether it is drained at all.
    pub enabled: bool,
    /// The database.
    pub database_url: Secret,
    /// The layout of its tables; none: of those that are there.
    pub layout: Option<Layout>,
    /// The schema of its tables.
    pub schema: Option<String>,
    /// The table of the native layout.
    pub table: TableName,
    /// The table of events of the flowcatalyst layout; none: not read.
    pub events_table: Option<TableName>,
    /// The table of dispatch jobs of the flowcatalyst layout; none: not read.
    pub dispatch_jobs_table: Option<TableName>,
    /// Whether tables are made and upgraded.
    pub migrate: bool,
    /// How often it is looked at.
    pub poll_interval: Duration,
    /// Rows read at once.
    pub poll_batch_size: usize,
    /// Rows in memory.
    pub global_buffer_size: usize,
    /// Bytes in memory.
    pub buffer_bytes: usize,
    /// Bytes of the largest row that is loaded.
    pub max_row_bytes: usize,
    /// When rows that somebody took are taken back.
    pub processing_timeout: Duration,
    /// How long a dead relay keeps its work.
    pub lease: Lease,
    /// Groups delivered at once.
    pub max_concurrent_groups: usize,
    /// Events of a group that go out together.
    pub api_batch_size: usize,
    /// Retries before an event is dead.
    pub max_retries: u32,
    /// The first wait before a retry.
    pub retry_min: Duration,
    /// The longest one.
    pub retry_max: Duration,
    /// What a group does when its head has died.
    pub on_dead: OnDead,
    /// What happens to rows that are done.
    pub on_done: OnDone,
    /// What happens to items without a group.
    pub ungrouped: Ungrouped,
    /// How long rows that are done are kept; none: as the layout has it.
    pub retention_done: Option<Retention>,
    /// How long dead rows are kept; none: as the layout has it.
    pub retention_dead: Option<Retention>,
    /// How long ending waits.
    pub drain: Duration,
    /// Where events go.
    pub sink: SinkConfig,
    /// Its keys, as people may see them.
    pub shown: Vec<ShownKey>,
}

/// How long rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// Until someone deletes them.
    Forever,
    /// This long after their end.
    For(Duration),
}

impl Retention {
    pub(crate) fn length(self) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(length) => Some(length),
        }
    }
}

/// Which key named a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    /// `api-base-url`: the HTTP API of batches, a path for each table.
    Api,
    /// `sink`: what its URL says.
    Url,
}

/// Where events go, and how.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Which key named it.
    pub kind: SinkKind,
    /// The URL.
    pub url: Secret,
    /// A template for path, subject, topic, routing key or stream.
    pub destination: Option<String>,
    /// The bearer token.
    pub token: Option<Secret>,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
    /// `none`, `gzip`, `zstd`.
    pub compression: String,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// The longest wait that an answer can ask for.
    pub retry_after_max: Duration,
    /// `item-by-item`, `by-status`.
    pub answers: String,
    /// `negotiated`, `prior-knowledge`.
    pub http2: String,
    /// A proxy.
    pub proxy: Option<Secret>,
    /// Settings of a broker's client.
    pub properties: BTreeMap<String, Secret>,
    /// `raw`, `cloudevents`, `cloudevents-binary`.
    pub format: String,
    /// The source of CloudEvents.
    pub source: String,
    /// Certificates to trust.
    pub ca_file: Option<PathBuf>,
    /// What webhooks are signed with.
    pub webhook_secrets: Vec<Secret>,
    /// Whether webhooks may reach private addresses.
    pub allow_private: bool,
    /// Whether webhooks may go without TLS.
    pub allow_http: bool,
}

/// What a configuration is read from.
#[derive(Debug, Default)]
pub struct Input {
    /// The name of the file and its text.
    pub file: Option<(String, String)>,
    /// Variables by the names of their keys.
    pub variables: Vec<(String, String)>,
    /// Flags by the names of their keys.
    pub flags: Vec<(String, String)>,
}

impl RelayConfig {
    /// Reads a configuration: flags over variables over the file over the defaults. Names everything that is wrong.
    pub fn load(input: &Input) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let (file, text) = input.file.as_ref().map_or(("", ""), |(name, text)| (name, text));
        let document = document::read(text, file, &mut problems);
        let variables = texts(&input.variables, &Origin::Variable, &mut problems);
        let flags = texts(&input.flags, &Origin::Flag, &mut problems);
        let over = variables.under(&flags);
        let top = Layer::defaults().under(&document.top);
        let relay = top.clone().under(&over);
        let mut whole = Resolver::new(&relay, file, None, &mut problems);
        let (admin, otlp) = (whole.admin(), whole.otlp());
        let sources = sources(&document, &top, &over, file, &mut problems);
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let keys = relay.keys();
        let is_json = keys.log_format.is_some_and(|word| word.lower() == "json");
        let log_format = if is_json { LogFormat::Json } else { LogFormat::Text };
        let label = keys.label.filter(|label| !label.is_empty());
        Ok(Self { sources, admin, otlp, label, log_format })
    }
}

fn texts(given: &[(String, String)], origin: &Origin, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (name, text) in given {
        let what = match keys::key(name) {
            None => unknown(name),
            Some(key) => match layer.take_text(key.name, text, origin.clone()) {
                Ok(()) => continue,
                Err(what) => what,
            },
        };
        problems.push(Problem::new(name.as_str(), place(name, origin, ""), what));
    }
    layer
}

fn sources(
    document: &Document,
    top: &Layer,
    over: &Layer,
    file: &str,
    problems: &mut Vec<Problem>,
) -> Vec<SourceConfig> {
    if document.sources.is_empty() {
        let layer = top.clone().under(over);
        return vec![Resolver::new(&layer, file, None, problems).source(ONLY_SOURCE)];
    }
    let mut sources = Vec::new();
    for table in &document.sources {
        for (name, origin) in over.given_in(Place) {
            if table.layer.is_given(name) {
                let what =
                    format!("the source on line {} of {file} has its own: take one of them out", table.line);
                problems.push(problem(name, origin, file, what));
            }
        }
        let layer = top.clone().under(&table.layer).under(over);
        sources.push(Resolver::new(&layer, file, Some(&table.name), problems).source(&table.name));
    }
    sources
}
