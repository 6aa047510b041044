//! Defines every key once: typed struct, flags, environment variables, schema and documents derive from it.

use pillarbox::engine::{OnDead, Ungrouped};
use pillarbox::model::Layout;
use pillarbox::port::OnDone;
use pillarbox_sinks::{Answers, Compression, Format, Http2, KeepAnswers, Secret};
use serde::Deserialize;

use super::LogFormat;
use super::key::{Key, KeyScope, Section, ValueKind};
use super::value::{HumanDuration, Pairs, Retention, Secrets};

macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        $section:ident $scope:ident $name:literal $field:ident: $type:ty [$kind:expr] = $default:expr, $example:literal;
    )+) => {
        /// The typed values of all keys; `None` for keys that are neither set nor have a default.
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Keys {
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                pub(crate) $field: Option<$type>,
            )+
        }

        /// The description of every key, in the order of the documents.
        pub const KEYS: &[Key] = &[
            $(Key {
                name: $name,
                section: Section::$section,
                scope: KeyScope::$scope,
                kind: $kind,
                default: $default,
                example: $example,
                doc: concat!($($doc),+),
            },)+
        ];
    };
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

keys! {
    /// Whether the source is delivered. `false`: the relay only serves its admin address.
    Tables Source "enabled" enabled: bool [ValueKind::Bool] = Some("true"), "true";
    /// URL of the database, as in postgres://USER@HOST/DATABASE, mysql://…, mongodb://… or sqlite:FILE.
    Tables Location "database-url" database_url: Secret [ValueKind::Secret] = None, "postgres://relay@localhost/shop";
    /// File that contains the database URL, to keep a password out of this file and the process list.
    Tables Location "database-url-file" database_url_file: String [ValueKind::Text] = None, "/run/secrets/database-url";
    /// Kind of database, in upper or lower case. Not set: by the URL, which it must agree with.
    Tables Source "database-type" database_type: String [ValueKind::DatabaseType] = None, "POSTGRESQL";
    /// Layout of the tables. Not set: detected; flowcatalyst if one of the next two keys names another table.
    Tables Location "layout" layout: Layout [ValueKind::Choice(&["native", "flowcatalyst"])] = None, "native";
    /// Table of events in the flowcatalyst layout, posted to /api/events/batch. Empty: none.
    Tables Location "events-table" events_table: String [ValueKind::Text] = Some("\"outbox_events\""), "outbox_events";
    /// Table of dispatch jobs in the flowcatalyst layout, posted to /api/dispatch/jobs/batch. Empty: none.
    Tables Location "dispatch-jobs-table" dispatch_jobs_table: String [ValueKind::Text] = Some("\"outbox_dispatch_jobs\""), "outbox_dispatch_jobs";
    /// Table of events in the native layout. Not set: outbox_event.
    Tables Location "table" table: String [ValueKind::Text] = None, "outbox_event";
    /// Schema of the tables, on PostgreSQL. Not set: the first of the search path.
    Tables Location "schema" schema: String [ValueKind::Text] = None, "public";
    /// Database on MongoDB, if the URL does not name one.
    Tables Location "mongo-database" mongo_database: String [ValueKind::Text] = Some("\"outbox\""), "outbox";
    /// Whether missing tables are created and old ones upgraded at startup. `false`: the relay checks them and says what to do.
    Tables Source "migrate" migrate: bool [ValueKind::Bool] = Some("false"), "false";

    /// How often the tables are polled when no wake-up arrives.
    Reading Source "poll-interval" poll_interval: HumanDuration [ValueKind::Duration(10, HOUR)] = Some("\"1s\""), "1s";
    /// Number of rows read at once.
    Reading Source "poll-batch-size" poll_batch_size: u64 [ValueKind::Count(1, 100_000)] = Some("500"), "500";
    /// Maximum number of rows in memory. The rest stays in the table.
    Reading Source "global-buffer-size" global_buffer_size: u64 [ValueKind::Count(1, 1_000_000)] = Some("1000"), "1000";
    /// Maximum bytes of events in memory, including headers and names. The rest is not loaded. An event in flight needs about as much again.
    Reading Source "buffer-bytes" buffer_bytes: u64 [ValueKind::Count(65_536, 1 << 40)] = Some("16777216"), "16777216";
    /// A row with more bytes in all its columns goes dead without being loaded.
    Reading Source "max-row-bytes" max_row_bytes: u64 [ValueKind::Count(2_097_152, 1 << 40)] = Some("16777216"), "16777216";
    /// In the flowcatalyst layout, rows that have been PROCESSING for this many seconds go back to PENDING.
    Reading Source "processing-timeout-seconds" processing_timeout_seconds: u64 [ValueKind::Count(1, 86_400)] = Some("300"), "300";
    /// How long a crashed relay keeps its share of the work from the others.
    Reading Source "lease" lease: HumanDuration [ValueKind::Duration(300, DAY)] = Some("\"15s\""), "15s";

    /// Number of groups delivered at once.
    Delivery Source "max-concurrent-groups" max_concurrent_groups: u64 [ValueKind::Count(1, 1_024)] = Some("10"), "10";
    /// Maximum number of events of one group in one batch.
    Delivery Source "api-batch-size" api_batch_size: u64 [ValueKind::Count(1, 10_000)] = Some("100"), "100";
    /// Number of retries of an event that fails by its own fault before it goes dead.
    Delivery Source "max-retries" max_retries: u64 [ValueKind::Count(0, 999_999)] = Some("3"), "3";
    /// Delay before the first retry; it doubles with each retry.
    Delivery Source "retry-min" retry_min: HumanDuration [ValueKind::Duration(1, DAY)] = Some("\"1s\""), "1s";
    /// Maximum delay before a retry.
    Delivery Source "retry-max" retry_max: HumanDuration [ValueKind::Duration(1, DAY)] = Some("\"60s\""), "60s";
    /// What a group does when one of its events goes dead: `skip` continues with the next, `block` waits for an operator.
    Delivery Source "on-dead" on_dead: OnDead [ValueKind::Choice(&["skip", "block"])] = Some("\"skip\""), "skip";
    /// What happens to delivered rows. The flowcatalyst layout always keeps them.
    Delivery Source "on-done" on_done: OnDone [ValueKind::Choice(&["keep", "delete"])] = Some("\"keep\""), "keep";
    /// How long delivered rows are kept; `none`: forever. Not set: 7d, and none in the flowcatalyst layout.
    Delivery Source "retention-done" retention_done: Retention [ValueKind::Retention] = None, "7d";
    /// How long dead rows are kept; `none`: forever. Not set: 30d, and none in the flowcatalyst layout.
    Delivery Source "retention-dead" retention_dead: Retention [ValueKind::Retention] = None, "30d";
    /// In the flowcatalyst layout, whether items without a group share the group `default` or are delivered in parallel.
    Delivery Source "ungrouped" ungrouped: Ungrouped [ValueKind::Choice(&["default", "parallel"])] = Some("\"default\""), "default";
    /// How long shutdown keeps delivering buffered rows before it releases the rest.
    Delivery Source "drain" drain: HumanDuration [ValueKind::Duration(0, HOUR)] = Some("\"30s\""), "30s";

    /// URL of the HTTP API, without the path. Required unless `sink` is set.
    Api Source "api-base-url" api_base_url: Secret [ValueKind::Secret] = None, "https://api.example.com";
    /// Path of the batch endpoint, a template over the event. Not set: /api/events/batch, and /api/dispatch/jobs/batch for dispatch jobs.
    Api Source "api-path" api_path: String [ValueKind::Text] = None, "/api/events/batch";
    /// Bearer token.
    Api Source "api-token" api_token: Secret [ValueKind::Secret] = None, "…";
    /// File that contains the bearer token; read again when the API answers 401.
    Api Source "api-token-file" api_token_file: String [ValueKind::Text] = None, "/run/secrets/api-token";
    /// Compression of requests.
    Api Source "api-compression" api_compression: Compression [ValueKind::Choice(&["none", "gzip", "zstd"])] = Some("\"none\""), "none";
    /// Timeout of connecting.
    Api Source "api-connect-timeout" api_connect_timeout: HumanDuration [ValueKind::Duration(1, HOUR)] = Some("\"10s\""), "10s";
    /// Timeout of a request, including its response.
    Api Source "api-request-timeout" api_request_timeout: HumanDuration [ValueKind::Duration(1, HOUR)] = Some("\"30s\""), "30s";

    /// Maximum delay that a Retry-After header can ask for.
    Api Source "api-retry-after-max" api_retry_after_max: HumanDuration [ValueKind::Duration(0, DAY)] = Some("\"5m\""), "5m";
    /// How responses are read: `item-by-item` if the body has a result for each event, `by-status` by the status code alone.
    Api Source "api-answers" api_answers: Answers [ValueKind::Choice(&["item-by-item", "by-status"])] = Some("\"item-by-item\""), "item-by-item";
    /// Whether the beginning of an endpoint's answer is kept with an event that failed: `none` keeps only the status. The log never shows more than the status.
    Api Source "keep-answers" keep_answers: KeepAnswers [ValueKind::Choice(&["text", "none"])] = Some("\"text\""), "text";
    /// When HTTP/2 is used: `negotiated` if TLS offers it, `prior-knowledge` always, even without TLS.
    Api Source "api-http2" api_http2: Http2 [ValueKind::Choice(&["negotiated", "prior-knowledge"])] = Some("\"negotiated\""), "negotiated";
    /// Proxy for requests. Not set: none; proxy variables of the environment are ignored.
    Api Source "api-proxy" api_proxy: Secret [ValueKind::Secret] = None, "http://proxy:3128";

    /// URL of the sink that events go to instead of the HTTP API: webhook+https://…, nats://…, amqp://…, redis://…, kafka://… or stdout:.
    Sinks Source "sink" sink: Secret [ValueKind::Secret] = None, "nats://localhost/orders.{type}";
    /// Template for the subject, topic, routing key, stream or path, if the URL does not contain it.
    Sinks Source "sink-destination" sink_destination: String [ValueKind::Text] = None, "orders.{type}";
    /// Format of messages: `raw` is the payload alone, `cloudevents` a JSON document with the payload in it, `cloudevents-binary` the payload with attributes as headers.
    Sinks Source "sink-format" sink_format: Format [ValueKind::Choice(&["raw", "cloudevents", "cloudevents-binary"])] = Some("\"raw\""), "raw";
    /// The `source` attribute of CloudEvents. Set one per outbox if several deliver to one API: it tells their idempotency keys apart.
    Sinks Source "sink-source" sink_source: String [ValueKind::Text] = Some("\"pillarbox\""), "pillarbox";
    /// Whether tokens, passwords and the headers for the collector may be sent to other machines without TLS. `false`: the relay refuses to start.
    Sinks Source "allow-cleartext" allow_cleartext: bool [ValueKind::Bool] = Some("false"), "false";
    /// Settings passed to the broker's client: a table, or NAME=VALUE separated by commas.
    Sinks Source "sink-properties" sink_properties: Pairs [ValueKind::Pairs] = None, "compression.type=zstd";
    /// File of PEM certificates to trust in addition to the system's.
    Sinks Source "sink-ca-file" sink_ca_file: String [ValueKind::Text] = None, "/etc/ssl/internal.pem";
    /// Secrets that sign webhooks, each `whsec_…`; more than one during a rotation.
    Sinks Source "webhook-secrets" webhook_secrets: Secrets [ValueKind::Secrets] = None, "whsec_…";
    /// File that contains these secrets, one per line.
    Sinks Source "webhook-secrets-file" webhook_secrets_file: String [ValueKind::Text] = None, "/run/secrets/webhook";
    /// Whether webhooks may go to private and loopback addresses. Cloud metadata addresses stay forbidden.
    Sinks Source "egress-allow-private" egress_allow_private: bool [ValueKind::Bool] = Some("false"), "false";
    /// Whether webhooks may be sent without TLS.
    Sinks Source "egress-allow-http" egress_allow_http: bool [ValueKind::Bool] = Some("false"), "false";

    /// Address of the admin server: metrics, health and the admin API. Not set: none. An address other than loopback needs a token.
    Relay Relay "admin" admin: String [ValueKind::Text] = None, "127.0.0.1:7080";
    /// Bearer token of operators, who read and change, at least 16 characters, or `sha256:` and its hash; ` until TIME` may follow. Without it, nobody can change anything through the admin server.
    Relay Relay "admin-token" admin_token: Secret [ValueKind::Secret] = None, "…";
    /// File with the tokens of operators, one a line: more than one during a rotation.
    Relay Relay "admin-token-file" admin_token_file: String [ValueKind::Text] = None, "/run/secrets/admin-token";
    /// Bearer token of viewers, who read everything but payloads, headers and answers of endpoints.
    Relay Relay "admin-viewer-token" admin_viewer_token: Secret [ValueKind::Secret] = None, "…";
    /// File with the tokens of viewers, one a line.
    Relay Relay "admin-viewer-token-file" admin_viewer_token_file: String [ValueKind::Text] = None, "/run/secrets/viewer-token";
    /// Bearer token that reads metrics and nothing else.
    Relay Relay "admin-metrics-token" admin_metrics_token: Secret [ValueKind::Secret] = None, "…";
    /// File with the tokens that read metrics, one a line.
    Relay Relay "admin-metrics-token-file" admin_metrics_token_file: String [ValueKind::Text] = None, "/run/secrets/metrics-token";
    /// OpenTelemetry collector that metrics are pushed to by OTLP over HTTP as JSON; /v1/metrics is appended. Not set: none.
    Relay Relay "otlp-endpoint" otlp_endpoint: Secret [ValueKind::Secret] = None, "http://localhost:4318";
    /// Headers for the collector, such as an API key: a table, or NAME=VALUE separated by commas.
    Relay Relay "otlp-headers" otlp_headers: Pairs [ValueKind::Pairs] = None, "api-key=…";
    /// How often metrics are pushed; once more at shutdown.
    Relay Relay "otlp-interval" otlp_interval: HumanDuration [ValueKind::Duration(100, HOUR)] = Some("\"1m\""), "1m";
    /// Label in lists of nodes. Not set: `relay` and the name of the source.
    Relay Relay "label" label: String [ValueKind::Text] = None, "relay-a";
    /// Format of the log on standard error.
    Relay Relay "log-format" log_format: LogFormat [ValueKind::Choice(&["text", "json"])] = Some("\"text\""), "text";
}

/// Finds a key by its name.
#[must_use]
pub(crate) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
