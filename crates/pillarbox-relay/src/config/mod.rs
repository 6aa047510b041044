//! Loads the configuration from a file, environment variables and flags, and reports all problems at once.

mod document;
mod key;
mod keys;
mod layers;
mod pages;
mod problem;
mod resolve;
mod secret_file;
mod value;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::model::{Layout, TableName};
use pillarbox::rules::Exponential;
use pillarbox_admin::AdminTokens;
use pillarbox_sinks::{Secret, SinkOptions};
use serde::Deserialize;

pub use key::{Key, KeyScope, Section, ValueKind};
pub use keys::KEYS;
pub use layers::ShownKey;
pub use pages::{default_file, json_schema, reference};
pub use problem::{Origin, Problem, Problems};
pub use secret_file::read_secret_file;
pub use value::{DurationError, HumanDuration, Retention};

use document::{Document, unknown};
use key::KeyScope::Location;
use layers::{Layer, place, problem};
use problem::Findings;
use resolve::Resolver;

/// The name of the source if the file has no `[[source]]`.
const ONLY_SOURCE: &str = "default";

/// The checked configuration of a relay.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// The databases to drain, each with its sink; at least one.
    pub sources: Vec<SourceConfig>,
    /// The admin server; none: not started.
    pub admin: Option<AdminConfig>,
    /// The OpenTelemetry collector; none: metrics are not pushed.
    pub otlp: Option<OtlpConfig>,
    /// Label in lists of nodes.
    pub label: Option<String>,
    /// Format of the log.
    pub log_format: LogFormat,
    /// What an operator should know of, such as a connection to a database without TLS. The relay logs them
    /// when it starts.
    pub warnings: Vec<Problem>,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON document per line.
    Json,
}

/// Settings of the admin server.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Bearer tokens of callers, by role.
    pub tokens: AdminTokens,
}

/// Settings for pushing metrics by OTLP.
#[derive(Debug, Clone)]
pub struct OtlpConfig {
    /// URL that metrics are posted to.
    pub url: Secret,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret>,
    /// Interval between two pushes.
    pub interval: Duration,
}

/// One database to drain, and its sink.
#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Name of the source.
    pub name: String,
    /// Whether the source is drained.
    pub enabled: bool,
    /// URL of the database.
    pub database_url: Secret,
    /// Layout of the tables; none: detected.
    pub layout: Option<Layout>,
    /// Schema of the tables.
    pub schema: Option<String>,
    /// Table of the native layout.
    pub table: TableName,
    /// Table of events in the flowcatalyst layout; none: not read.
    pub events_table: Option<TableName>,
    /// Table of dispatch jobs in the flowcatalyst layout; none: not read.
    pub dispatch_jobs_table: Option<TableName>,
    /// Whether tables are created and upgraded at startup.
    pub migrate: bool,
    /// Settings of the engine of each table. A sink or a layout may demand others.
    pub engine: EngineSettings,
    /// Backoff between attempts.
    pub retry: Exponential,
    /// How long delivered rows are kept; none: the default of the layout.
    pub retention_done: Option<Retention>,
    /// How long dead rows are kept; none: the default of the layout.
    pub retention_dead: Option<Retention>,
    /// The sink that events are delivered to.
    pub sink: SinkConfig,
    /// The keys with their values for display, with secrets hidden.
    pub shown: Vec<ShownKey>,
}

/// The key that selects the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    /// `api-base-url`: an HTTP API with a batch endpoint per table.
    Api,
    /// `sink`: the scheme of the URL selects the sink.
    Url,
}

/// The URL and options of a sink.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// The key that sets the URL.
    pub kind: SinkKind,
    /// The URL, which may contain credentials.
    pub url: Secret,
    /// Options that the URL does not contain. Without a destination, `api-base-url` uses one path per table.
    pub options: SinkOptions,
}

/// The inputs of a configuration. It has no `Debug`, because the texts contain secrets.
#[derive(Default)]
pub struct Input {
    /// The name and the text of the file.
    pub file: Option<(String, String)>,
    /// Values of environment variables, by key.
    pub variables: Vec<(String, String)>,
    /// Values of flags, by key.
    pub flags: Vec<(String, String)>,
}

impl AdminConfig {
    /// Where the admin server listens if nothing else is set.
    pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7080);

    /// Loads the settings of an admin server that runs without a relay, with the warnings about them. The error
    /// lists every problem.
    pub fn load(input: &Input) -> Result<(Self, Vec<Problem>), Problems> {
        let mut found = Findings::default();
        let variables = texts(&input.variables, &Origin::Variable, &mut found.problems);
        let flags = texts(&input.flags, &Origin::Flag, &mut found.problems);
        let layer = Layer::defaults().under(&variables.under(&flags));
        let mut resolver = Resolver::new(&layer, "", None, &mut found);
        let tokens = resolver.admin_tokens();
        let config = resolver.admin().unwrap_or(Self { address: Self::ADDRESS, tokens });
        let Findings { problems, warnings } = found;
        if problems.is_empty() { Ok((config, warnings)) } else { Err(Problems(problems)) }
    }
}

impl RelayConfig {
    /// Loads a configuration. Flags override environment variables, which override the file, which overrides
    /// the defaults. The error lists every problem.
    pub fn load(input: &Input) -> Result<Self, Problems> {
        let mut found = Findings::default();
        let (file, text) = input.file.as_ref().map_or(("", ""), |(name, text)| (name, text));
        let document = document::read(text, file, &mut found.problems);
        let variables = texts(&input.variables, &Origin::Variable, &mut found.problems);
        let flags = texts(&input.flags, &Origin::Flag, &mut found.problems);
        let over = variables.under(&flags);
        let top = Layer::defaults().under(&document.top);
        let relay = top.clone().under(&over);
        let mut whole = Resolver::new(&relay, file, None, &mut found);
        let (admin, otlp) = (whole.admin(), whole.otlp());
        let sources = sources(&document, &top, &over, file, &mut found);
        if document.has_secrets()
            && let Some(what) = secret_file::exposure(Path::new(file))
        {
            found.warnings.push(Problem::new(
                "file",
                Some(file.to_owned()),
                format!("it holds secrets, and {what}"),
            ));
        }
        let Findings { problems, warnings } = found;
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let keys = relay.keys();
        let log_format = keys.log_format.unwrap_or_default();
        let label = keys.label.filter(|label| !label.is_empty());
        Ok(Self { sources, admin, otlp, label, log_format, warnings })
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
    found: &mut Findings,
) -> Vec<SourceConfig> {
    if document.sources.is_empty() {
        let layer = top.clone().under(over);
        return vec![Resolver::new(&layer, file, None, found).source(ONLY_SOURCE)];
    }
    let mut sources = Vec::new();
    for table in &document.sources {
        for (name, origin) in over.given_in(Location) {
            if table.layer.is_given(name) {
                let what =
                    format!("the source on line {} of {file} has its own: take one of them out", table.line);
                found.problems.push(problem(name, origin, file, what));
            }
        }
        let layer = top.clone().under(&table.layer).under(over);
        sources.push(Resolver::new(&layer, file, Some(&table.name), found).source(&table.name));
    }
    sources
}
