//! From layers of settings to what runs: every key checked against the others, all problems at once.

use std::fs;
use std::path::{Path, PathBuf};

use pillarbox::engine::{OnDead, Ungrouped};
use pillarbox::model::flowcatalyst::{DISPATCH_JOBS, EVENTS};
use pillarbox::model::{Layout, TableName};
use pillarbox::port::OnDone;
use pillarbox::rules::Lease;
use pillarbox_stores::stores;

use super::keys::Keys;
use super::layers::{Layer, problem};
use super::problem::Problem;
use super::value::{Span, Word};
use super::{AdminConfig, OtlpConfig, Retention, SinkConfig, SinkKind, SourceConfig};
use crate::metrics::is_header;
use crate::secret::Secret;

/// The largest file that a secret is read from.
const SECRET_BYTES: u64 = 64 * 1_024;
/// Rows are kept for at least this long.
const SHORTEST_RETENTION: std::time::Duration = std::time::Duration::from_secs(60);
/// Where OTLP over HTTP takes metrics.
const METRICS_PATH: &str = "/v1/metrics";

/// One source on its way from settings to what runs.
pub(super) struct Resolver<'a> {
    layer: &'a Layer,
    keys: Keys,
    file: &'a str,
    /// What stands before the problems of one of several sources.
    source: Option<&'a str>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        layer: &'a Layer,
        file: &'a str,
        source: Option<&'a str>,
        problems: &'a mut Vec<Problem>,
    ) -> Self {
        Self { keys: layer.keys(), layer, file, source, problems }
    }

    pub(super) fn source(mut self, name: &str) -> SourceConfig {
        let database_url = self.database_url();
        let (layout, table) = (self.layout(), self.table("table"));
        let events_table = self.table("events-table");
        let dispatch_jobs_table = self.table("dispatch-jobs-table");
        if layout == Some(Layout::Flowcatalyst) && events_table.is_none() && dispatch_jobs_table.is_none() {
            self.wrong("events-table", "it and dispatch-jobs-table are both empty: nothing is left to read");
        }
        self.word_fits_layout(layout);
        let sink = self.sink();
        let (retry_min, retry_max) = (span(self.keys.retry_min), span(self.keys.retry_max));
        if retry_min > retry_max {
            self.wrong("retry-max", "it is shorter than retry-min");
        }
        let retention_done = self.retention("retention-done", self.keys.retention_done.clone());
        let retention_dead = self.retention("retention-dead", self.keys.retention_dead.clone());
        let keys = self.keys;
        SourceConfig {
            shown: self.layer.shown(self.file),
            name: name.to_owned(),
            enabled: keys.enabled.unwrap_or(true),
            database_url,
            layout,
            schema: keys.schema,
            table: table.unwrap_or_default(),
            events_table,
            dispatch_jobs_table,
            migrate: keys.migrate.unwrap_or_default(),
            poll_interval: span(keys.poll_interval),
            poll_batch_size: count(keys.poll_batch_size),
            global_buffer_size: count(keys.global_buffer_size),
            buffer_bytes: count(keys.buffer_bytes),
            max_row_bytes: count(keys.max_row_bytes),
            processing_timeout: std::time::Duration::from_secs(
                keys.processing_timeout_seconds.unwrap_or_default(),
            ),
            lease: Lease::new(span(keys.lease)).unwrap_or_default(),
            max_concurrent_groups: count(keys.max_concurrent_groups),
            api_batch_size: count(keys.api_batch_size),
            max_retries: u32::try_from(keys.max_retries.unwrap_or_default()).unwrap_or(u32::MAX - 1),
            retry_min,
            retry_max,
            on_dead: if is(keys.on_dead.as_ref(), "block") { OnDead::Block } else { OnDead::Skip },
            on_done: if is(keys.on_done.as_ref(), "delete") { OnDone::Delete } else { OnDone::Keep },
            ungrouped: if is(keys.ungrouped.as_ref(), "parallel") {
                Ungrouped::Parallel
            } else {
                Ungrouped::Default
            },
            retention_done,
            retention_dead,
            drain: span(keys.drain),
            sink,
        }
    }

    /// The address of the admin server, and its token.
    pub(super) fn admin(&mut self) -> Option<AdminConfig> {
        let token = self.text_or_file(
            "admin-token",
            self.keys.admin_token.clone(),
            self.keys.admin_token_file.clone(),
        );
        let given = self.keys.admin.clone().filter(|address| !address.is_empty())?;
        let Ok(address) = given.parse::<std::net::SocketAddr>() else {
            self.wrong("admin", "it must be an address and a port, as in 127.0.0.1:7080 or [::1]:7080");
            return None;
        };
        match &token {
            Some(token) if token.reveal().len() < 16 => {
                self.wrong("admin-token", "it is shorter than 16 characters");
            }
            None if !address.ip().is_loopback() => {
                self.wrong(
                    "admin",
                    "others can reach this address: set admin-token or admin-token-file, or use 127.0.0.1",
                );
            }
            _ => {}
        }
        Some(AdminConfig { address, token })
    }

    /// Where metrics are pushed: the path of OTLP behind the URL, unless it is there already.
    pub(super) fn otlp(&mut self) -> Option<OtlpConfig> {
        let headers = self.keys.otlp_headers.clone().unwrap_or_default().0;
        for (name, _) in headers.iter().filter(|(name, value)| !is_header(name, value.reveal())) {
            self.wrong("otlp-headers", format!("`{}` is no header that can be sent", name.escape_debug()));
        }
        let given = self.keys.otlp_endpoint.clone().filter(|url| !url.reveal().is_empty())?;
        let base = given.reveal().trim_end_matches('/');
        let parsed = reqwest::Url::parse(base).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        if parsed.is_none_or(|url| url.query().is_some()) {
            self.wrong("otlp-endpoint", "it must be a URL as in http://localhost:4318");
        }
        let url =
            if base.ends_with(METRICS_PATH) { base.to_owned() } else { format!("{base}{METRICS_PATH}") };
        Some(OtlpConfig { url: Secret::new(url), headers, interval: span(self.keys.otlp_interval) })
    }

    fn word_fits_layout(&mut self, layout: Option<Layout>) {
        if layout == Some(Layout::Flowcatalyst) && is(self.keys.on_done.as_ref(), "delete") {
            self.wrong(
                "on-done",
                "the layout flowcatalyst keeps its rows: `pillarbox purge` deletes old ones",
            );
        }
    }

    fn retention(&mut self, key: &str, text: Option<String>) -> Option<Retention> {
        let text = text?;
        let retention = match Span::parse(&text) {
            _ if text == "none" => Some(Retention::Forever),
            Some(Span(length)) if length >= SHORTEST_RETENTION => Some(Retention::For(length)),
            _ => None,
        };
        if retention.is_none() {
            self.wrong(
                key,
                "it must be `none`, or a whole number and a unit of at least a minute, as in 12h or 7d",
            );
        }
        retention
    }

    fn layout(&mut self) -> Option<Layout> {
        let named = self.keys.layout.as_ref().map(Word::lower).and_then(|word| Layout::parse(&word).ok());
        let item_tables = [
            ("events-table", self.keys.events_table.as_deref(), EVENTS),
            ("dispatch-jobs-table", self.keys.dispatch_jobs_table.as_deref(), DISPATCH_JOBS),
        ];
        // An empty name says that there is none, which holds in every layout.
        let own = item_tables
            .into_iter()
            .find(|(_, table, usual)| table.is_some_and(|name| name != *usual && !name.is_empty()));
        let own = own.map(|(key, _, _)| key).filter(|key| self.layer.is_given(key));
        if let (Some(Layout::Native), Some(key)) = (named, own) {
            self.wrong(key, "the layout native has no such table: its one is `table`");
        }
        match named {
            None if self.layer.is_given("table") => Some(Layout::Native),
            None if own.is_some() => Some(Layout::Flowcatalyst),
            named => named,
        }
    }

    /// A table's name; none where it is empty or not set.
    fn table(&mut self, key: &'static str) -> Option<TableName> {
        let name = match key {
            "table" => self.keys.table.clone(),
            "events-table" => self.keys.events_table.clone(),
            _ => self.keys.dispatch_jobs_table.clone(),
        };
        let name = name.filter(|name| !name.is_empty())?;
        match TableName::new(name.as_str()) {
            Ok(name) => Some(name),
            Err(invalid) => {
                self.wrong(key, invalid.to_string());
                None
            }
        }
    }

    fn database_url(&mut self) -> Secret {
        let (url, file) = (self.keys.database_url.clone(), self.keys.database_url_file.clone());
        let Some(url) = self.text_or_file("database-url", url, file) else {
            if !self.layer.is_given("database-url") && !self.layer.is_given("database-url-file") {
                self.wrong("database-url", "it is required, as in postgres://HOST/DATABASE or sqlite:FILE");
            }
            return Secret::default();
        };
        let scheme = url.reveal().split(':').next().unwrap_or_default().to_ascii_lowercase();
        let Some(kind) = stores().iter().find(|kind| kind.schemes.contains(&scheme.as_str())) else {
            let known: Vec<_> =
                stores().iter().filter(|kind| kind.built_in).map(|kind| kind.example).collect();
            self.wrong("database-url", format!("no store has its scheme; known are {}", known.join(", ")));
            return url;
        };
        if self.layer.is_given("database-type") {
            let named = self.keys.database_type.as_ref().map(Word::lower).unwrap_or_default();
            if named.trim_end_matches("ql") != kind.name.trim_end_matches("ql") {
                self.wrong("database-type", format!("the database URL is one of {}", kind.name));
            }
        }
        if kind.name == "mongodb" { self.mongo_url(&url) } else { url }
    }

    /// The URL with the database in it.
    fn mongo_url(&mut self, url: &Secret) -> Secret {
        let (place, query) = match url.reveal().split_once('?') {
            Some((place, query)) => (place, format!("?{query}")),
            None => (url.reveal(), String::new()),
        };
        let Some((scheme, rest)) = place.split_once("://") else { return url.clone() };
        let wanted = self.keys.mongo_database.clone().unwrap_or_default();
        let hosts_start = rest.rfind('@').map_or(0, |at| at + 1);
        let (hosts, database) = match rest[hosts_start..].split_once('/') {
            Some((hosts, database)) => (&rest[..hosts_start + hosts.len()], database),
            None => (rest, ""),
        };
        if database.is_empty() {
            return Secret::new(format!("{scheme}://{hosts}/{wanted}{query}"));
        }
        if self.layer.is_given("mongo-database") && database != wanted {
            self.wrong("mongo-database", "the database URL names another database");
        }
        url.clone()
    }

    fn sink(&mut self) -> SinkConfig {
        let keys = self.keys.clone();
        let url = match (keys.sink, keys.api_base_url) {
            (Some(_), Some(_)) => {
                self.wrong("sink", "api-base-url is set too: events go to one of them");
                Secret::default()
            }
            (Some(url), None) | (None, Some(url)) => url,
            (None, None) => {
                self.wrong("api-base-url", "it is required, unless `sink` names another sink");
                Secret::default()
            }
        };
        let is_api = self.layer.is_given("api-base-url");
        if is_api && !["http://", "https://"].iter().any(|scheme| url.reveal().starts_with(scheme)) {
            self.wrong("api-base-url", "it must begin with http:// or https://");
        }
        let token = self.text_or_file("api-token", keys.api_token, None);
        if token.is_some() && keys.api_token_file.is_some() {
            self.wrong("api-token-file", "api-token is set too: one of them is enough");
        }
        if let Some(file) = &keys.api_token_file {
            let _ = self.secret_file("api-token-file", Path::new(file));
        }
        let webhook_secrets = self.webhook_secrets();
        SinkConfig {
            kind: if is_api { SinkKind::Api } else { SinkKind::Url },
            url,
            destination: if is_api { keys.api_path } else { keys.sink_destination.or(keys.api_path) },
            token,
            token_file: keys.api_token_file.map(PathBuf::from),
            compression: keys.api_compression.unwrap_or_default().lower(),
            connect_timeout: span(keys.api_connect_timeout),
            request_timeout: span(keys.api_request_timeout),
            retry_after_max: span(keys.api_retry_after_max),
            answers: keys.api_answers.unwrap_or_default().lower(),
            http2: keys.api_http2.unwrap_or_default().lower(),
            proxy: keys.api_proxy,
            properties: keys.sink_properties.unwrap_or_default().0,
            format: keys.sink_format.unwrap_or_default().lower(),
            source: keys.sink_source.unwrap_or_default(),
            ca_file: keys.sink_ca_file.map(PathBuf::from),
            webhook_secrets,
            allow_private: keys.egress_allow_private.unwrap_or_default(),
            allow_http: keys.egress_allow_http.unwrap_or_default(),
        }
    }

    fn webhook_secrets(&mut self) -> Vec<Secret> {
        let named = self.keys.webhook_secrets.clone().unwrap_or_default().0;
        let Some(file) = self.keys.webhook_secrets_file.clone() else { return named };
        if !named.is_empty() {
            self.wrong("webhook-secrets-file", "webhook-secrets is set too: one of them is enough");
        }
        let text = self.secret_file("webhook-secrets-file", Path::new(&file)).unwrap_or_default();
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Secret::new).collect()
    }

    /// A secret that stands in the settings or in a file, never in both.
    fn text_or_file(&mut self, key: &str, text: Option<Secret>, file: Option<String>) -> Option<Secret> {
        let file_key = format!("{key}-file");
        match (text, file) {
            (Some(_), Some(_)) => {
                self.wrong(&file_key, format!("{key} is set too: one of them is enough"));
                None
            }
            (Some(text), None) if text.reveal().trim().is_empty() => {
                self.wrong(key, "it is empty");
                None
            }
            (Some(text), None) => Some(Secret::new(text.reveal().trim())),
            (None, Some(file)) => self.secret_file(&file_key, Path::new(&file)).map(Secret::new),
            (None, None) => None,
        }
    }

    fn secret_file(&mut self, key: &str, file: &Path) -> Option<String> {
        let read = fs::metadata(file).and_then(|metadata| {
            if metadata.len() > SECRET_BYTES {
                return Err(std::io::Error::other("it has more than 64 KiB"));
            }
            fs::read_to_string(file)
        });
        match read {
            Ok(text) if text.trim().is_empty() => {
                self.wrong(key, "the file is empty");
                None
            }
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) => {
                self.wrong(key, format!("the file can't be read: {error}"));
                None
            }
        }
    }

    fn wrong(&mut self, key: &str, what: impl Into<String>) {
        let mut found = problem(key, &self.layer.origin(key), self.file, what);
        if let Some(source) = self.source {
            found.what = format!("source {source}: {}", found.what);
        }
        // What stands at the top is wrong once, not once for each source.
        if !self.problems.contains(&found) {
            self.problems.push(found);
        }
    }
}

fn span(span: Option<Span>) -> std::time::Duration {
    span.unwrap_or_default().0
}

fn count(count: Option<u64>) -> usize {
    usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX)
}

fn is(word: Option<&Word>, wanted: &str) -> bool {
    word.is_some_and(|word| word.lower() == wanted)
}
