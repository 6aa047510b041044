//! Resolves layers of settings to a configuration: checks keys against each other and collects all problems.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pillarbox::engine::EngineSettings;
use pillarbox::hosts::is_loopback;
use pillarbox::model::flowcatalyst::{DISPATCH_JOBS, EVENTS};
use pillarbox::model::{Layout, TableName};
use pillarbox::port::{OnDone, Order};
use pillarbox::rules::{Exponential, Lease};
use pillarbox_admin::{AccessTokens, AdminTokens};
use pillarbox_sinks::{Egress, Secret, SinkOptions, TokenSource};
use pillarbox_stores::{kind_of, supported};

use super::keys::Keys;
use super::layers::{Layer, problem};
use super::problem::Findings;
use super::secret_file;
use super::{AdminConfig, OtlpConfig, Problem, SinkConfig, SinkKind, SourceConfig};
use crate::metrics::is_header;

/// The path of metrics in OTLP over HTTP.
const METRICS_PATH: &str = "/v1/metrics";

/// Resolves the settings of one source, or those of the relay.
pub(super) struct Resolver<'a> {
    layer: &'a Layer,
    keys: Keys,
    file: &'a str,
    /// The name of the source in messages, if the file has `[[source]]` tables.
    source: Option<&'a str>,
    found: &'a mut Findings,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        layer: &'a Layer,
        file: &'a str,
        source: Option<&'a str>,
        found: &'a mut Findings,
    ) -> Self {
        Self { keys: layer.keys(), layer, file, source, found }
    }

    pub(super) fn source(mut self, name: &str) -> SourceConfig {
        let database_url = self.database_url();
        let (layout, table) = (self.layout(), self.table("table"));
        let events_table = self.table("events-table");
        let dispatch_jobs_table = self.table("dispatch-jobs-table");
        if layout == Some(Layout::Flowcatalyst) {
            self.check_items([events_table.as_ref(), dispatch_jobs_table.as_ref()]);
        }
        let sink = self.sink();
        let retry = Exponential { base: set(self.keys.retry_min).0, max: set(self.keys.retry_max).0 };
        if retry.base > retry.max {
            self.wrong("retry-max", "it is shorter than retry-min");
        }
        let keys = self.keys;
        SourceConfig {
            shown: self.layer.shown(self.file),
            name: name.to_owned(),
            enabled: set(keys.enabled),
            database_url,
            layout,
            schema: keys.schema,
            table: table.unwrap_or_default(),
            events_table,
            dispatch_jobs_table,
            migrate: set(keys.migrate),
            engine: EngineSettings {
                order: Order::PerGroup,
                ungrouped: set(keys.ungrouped),
                on_dead: set(keys.on_dead),
                workers: count(keys.max_concurrent_groups),
                batch: count(keys.api_batch_size),
                cold_rows: count(keys.global_buffer_size),
                buffer_bytes: count(keys.buffer_bytes),
                row_bytes: count(keys.max_row_bytes),
                fetch_rows: count(keys.poll_batch_size),
                max_attempts: u32::try_from(set(keys.max_retries)).unwrap_or(u32::MAX).saturating_add(1),
                on_done: set(keys.on_done),
                lease: Lease::new(set(keys.lease).0).unwrap_or_default(),
                poll_interval: set(keys.poll_interval).0,
                processing_timeout: Duration::from_secs(set(keys.processing_timeout_seconds)),
                drain: set(keys.drain).0,
                ..EngineSettings::default()
            },
            retry,
            retention_done: keys.retention_done,
            retention_dead: keys.retention_dead,
            sink,
        }
    }

    /// The admin server's address and tokens. An address other than loopback needs a token.
    pub(super) fn admin(&mut self) -> Option<AdminConfig> {
        let tokens = self.admin_tokens();
        let given = self.keys.admin.clone().filter(|address| !address.is_empty())?;
        let Ok(address) = given.parse::<std::net::SocketAddr>() else {
            self.wrong("admin", "it must be an address and a port, as in 127.0.0.1:7080 or [::1]:7080");
            return None;
        };
        let is_set = |key: &str| self.layer.is_given(key) || self.layer.is_given(&format!("{key}-file"));
        let has_token = ["admin-token", "admin-viewer-token", "admin-metrics-token"].into_iter().any(is_set);
        if !has_token && !address.ip().is_loopback() {
            self.wrong(
                "admin",
                "others can reach this address: set admin-token or admin-token-file, or use 127.0.0.1",
            );
        }
        Some(AdminConfig { address, tokens })
    }

    /// The tokens of all roles.
    pub(super) fn admin_tokens(&mut self) -> AdminTokens {
        let keys = self.keys.clone();
        AdminTokens {
            operator: self.tokens("admin-token", keys.admin_token, keys.admin_token_file),
            viewer: self.tokens("admin-viewer-token", keys.admin_viewer_token, keys.admin_viewer_token_file),
            metrics: self.tokens(
                "admin-metrics-token",
                keys.admin_metrics_token,
                keys.admin_metrics_token_file,
            ),
        }
    }

    /// The tokens of a role: the text, or the lines of the file.
    fn tokens(&mut self, key: &str, text: Option<Secret>, file: Option<String>) -> AccessTokens {
        let of = if text.is_some() { key.to_owned() } else { format!("{key}-file") };
        let Some(text) = self.text_or_file(key, text, file) else { return AccessTokens::default() };
        match AccessTokens::parse(text.reveal()) {
            Ok(tokens) => tokens,
            Err(bad) => {
                self.wrong(&of, bad.to_string());
                AccessTokens::default()
            }
        }
    }

    /// The push of metrics. Appends OTLP's path to the URL unless it is already there.
    pub(super) fn otlp(&mut self) -> Option<OtlpConfig> {
        let headers = self.keys.otlp_headers.clone().unwrap_or_default().0;
        for (name, _) in headers.iter().filter(|(name, value)| !is_header(name, value.reveal())) {
            self.wrong("otlp-headers", format!("`{}` is not a header that can be sent", name.escape_debug()));
        }
        let given = self.keys.otlp_endpoint.clone().filter(|url| !url.reveal().is_empty())?;
        let base = given.reveal().trim_end_matches('/');
        let parsed = reqwest::Url::parse(base).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
        match &parsed {
            Some(url) if url.query().is_none() => self.check_cleartext_metrics(url, !headers.is_empty()),
            _ => self.wrong("otlp-endpoint", "it must be a URL as in http://localhost:4318"),
        }
        let url =
            if base.ends_with(METRICS_PATH) { base.to_owned() } else { format!("{base}{METRICS_PATH}") };
        Some(OtlpConfig { url: Secret::new(url), headers, interval: set(self.keys.otlp_interval).0 })
    }

    /// Refuses headers or a password for a collector that would be sent to another machine without TLS.
    fn check_cleartext_metrics(&mut self, url: &reqwest::Url, has_headers: bool) {
        let is_secret = has_headers || url.password().is_some();
        let is_clear = url.scheme() == "http" && !url.host_str().is_some_and(is_loopback);
        if is_secret && is_clear && !set(self.keys.allow_cleartext) {
            self.wrong(
                "otlp-endpoint",
                "otlp-headers would be sent without TLS, and anybody on the network path could read them: use https, or set allow-cleartext = true if you trust the network",
            );
        }
    }

    /// Checks the keys of the flowcatalyst layout: at least one table is set, and delivered rows are kept.
    fn check_items(&mut self, tables: [Option<&TableName>; 2]) {
        if tables.iter().all(Option::is_none) {
            self.wrong("events-table", "it and dispatch-jobs-table are both empty: nothing is left to read");
        }
        if self.keys.on_done == Some(OnDone::Delete) {
            self.wrong(
                "on-done",
                "the layout flowcatalyst keeps its rows: `pillarbox purge` deletes old ones",
            );
        }
    }

    fn layout(&mut self) -> Option<Layout> {
        let named = self.keys.layout;
        let item_tables = [
            ("events-table", self.keys.events_table.as_deref(), EVENTS),
            ("dispatch-jobs-table", self.keys.dispatch_jobs_table.as_deref(), DISPATCH_JOBS),
        ];
        // An empty name means "no such table", which is valid in every layout.
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

    /// The table name of this key; `None` if it is empty or not set.
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
        let Ok(kind) = kind_of(url.reveal()) else {
            self.wrong("database-url", format!("no store for its scheme; supported: {}", supported()));
            return url;
        };
        if self.layer.is_given("database-type") {
            let named = self.keys.database_type.clone().unwrap_or_default();
            if !named.eq_ignore_ascii_case(kind.database_type) {
                let named = named.to_ascii_uppercase();
                self.wrong(
                    "database-type",
                    format!("it is {named}, but the database URL is for {}", kind.name),
                );
            }
        }
        if let Some(advice) = pillarbox_stores::tls_advice(url.reveal()) {
            self.warn(
                "database-url",
                format!("the connection may be readable, or lead to somebody else's server: {advice}"),
            );
        }
        if kind.name == "mongodb" { self.mongo_url(&url) } else { url }
    }

    /// The MongoDB URL with `mongo-database` added if the URL names no database.
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
        let is_alone = is_api && !self.layer.is_given("sink");
        if is_alone && !["http://", "https://"].iter().any(|scheme| url.reveal().starts_with(scheme)) {
            self.wrong("api-base-url", "it must begin with http:// or https://");
        }
        let token = self.text_or_file("api-token", keys.api_token, None);
        if token.is_some() && keys.api_token_file.is_some() {
            self.wrong("api-token-file", "api-token is set too: one of them is enough");
        }
        if let Some(file) = &keys.api_token_file {
            let _ = self.secret_file("api-token-file", Path::new(file));
        }
        let token_file = keys.api_token_file.map(PathBuf::from).map(TokenSource::File);
        let allow_private = set(keys.egress_allow_private);
        let options = SinkOptions {
            format: set(keys.sink_format),
            source: set(keys.sink_source),
            destination: if is_api { keys.api_path } else { keys.sink_destination.or(keys.api_path) },
            connect_timeout: set(keys.api_connect_timeout).0,
            timeout: set(keys.api_request_timeout).0,
            retry_after_max: set(keys.api_retry_after_max).0,
            compression: set(keys.api_compression),
            answers: set(keys.api_answers),
            keep_answers: set(keys.keep_answers),
            http2: set(keys.api_http2),
            token: token_file.or_else(|| token.map(TokenSource::Text)),
            secrets: self.webhook_secrets(),
            egress: Egress {
                plain_http: set(keys.egress_allow_http),
                internal: allow_private,
                // Internal services listen on any port, so `egress-allow-private` also allows every port.
                ports: if allow_private { Vec::new() } else { Egress::default().ports },
            },
            proxy: keys.api_proxy,
            allow_cleartext: set(keys.allow_cleartext),
            ca_file: keys.sink_ca_file.map(PathBuf::from),
            properties: keys.sink_properties.unwrap_or_default().0,
            ..SinkOptions::default()
        };
        SinkConfig { kind: if is_api { SinkKind::Api } else { SinkKind::Url }, url, options }
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

    /// A secret that is set either directly or by a file; it is an error to set both.
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
        if let Some(what) = secret_file::exposure(file) {
            self.warn(key, what);
        }
        match secret_file::read_secret_file(file) {
            Ok(text) if text.is_empty() => {
                self.wrong(key, "the file is empty");
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                self.wrong(key, format!("the file can't be read: {error}"));
                None
            }
        }
    }

    fn wrong(&mut self, key: &str, what: impl Into<String>) {
        let problem = self.about(key, what);
        // Without the check, a problem at the top would be reported once per source.
        if !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }

    fn warn(&mut self, key: &str, what: impl Into<String>) {
        let warning = self.about(key, what);
        if !self.found.warnings.contains(&warning) {
            self.found.warnings.push(warning);
        }
    }

    fn about(&self, key: &str, what: impl Into<String>) -> Problem {
        let mut about = problem(key, &self.layer.origin(key), self.file, what);
        if let Some(source) = self.source {
            about.what = format!("source {source}: {}", about.what);
        }
        about
    }
}

/// The value of a key that always has one, because it has a default.
fn set<T>(value: Option<T>) -> T {
    value.expect("the table of keys has a default for it")
}

fn count(count: Option<u64>) -> usize {
    usize::try_from(set(count)).unwrap_or(usize::MAX)
}
