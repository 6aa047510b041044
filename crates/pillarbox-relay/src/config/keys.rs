//! Every key, once: the struct that files are read into, the flags, the variables, the schema and the documents come from here.

use schemars::JsonSchema;
use serde::Deserialize;

use super::key::{Form, Key, Scope, Section};
use super::value::{Pairs, Secrets, Span, Word};
use crate::secret::Secret;

macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        $section:ident $scope:ident $name:literal $field:ident: $type:ty [$form:expr] = $default:expr, $example:literal;
    )+) => {
        /// The keys; what is not set is left to the defaults, or to nothing.
        #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Keys {
            $(
                $(#[doc = $doc])+
                #[serde(rename = $name)]
                pub(crate) $field: Option<$type>,
            )+
        }

        /// What is known of each key, in the order of the documents.
        pub const KEYS: &[Key] = &[
            $(Key {
                name: $name,
                section: Section::$section,
                scope: Scope::$scope,
                form: $form,
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
    /// Whether anything is delivered; `false`: the relay only serves its admin address.
    Tables Source "enabled" enabled: bool [Form::Switch] = Some("true"), "true";
    /// The database, as in postgres://USER@HOST/DATABASE, mysql://…, mongodb://… or sqlite:FILE.
    Tables Place "database-url" database_url: Secret [Form::Secret] = None, "postgres://relay@localhost/shop";
    /// A file that holds the database URL, which keeps a password out of this file and the list of processes.
    Tables Place "database-url-file" database_url_file: String [Form::Text] = None, "/run/secrets/database-url";
    /// The kind of database. The URL says it too; where both do, they must agree. In any case.
    Tables Source "database-type" database_type: Word [Form::Word(&["POSTGRESQL", "MYSQL", "MONGODB", "SQLITE"])] = Some("\"POSTGRESQL\""), "POSTGRESQL";
    /// The layout of the tables. Not set: that of the tables that are there; flowcatalyst where one of the next two keys names another table.
    Tables Place "layout" layout: Word [Form::Word(&["native", "flowcatalyst"])] = None, "native";
    /// The table of events in the layout flowcatalyst, posted to /api/events/batch. Empty: none.
    Tables Place "events-table" events_table: String [Form::Text] = Some("\"outbox_events\""), "outbox_events";
    /// The table of dispatch jobs in the layout flowcatalyst, posted to /api/dispatch/jobs/batch. Empty: none.
    Tables Place "dispatch-jobs-table" dispatch_jobs_table: String [Form::Text] = Some("\"outbox_dispatch_jobs\""), "outbox_dispatch_jobs";
    /// The table of events in the layout native. Not set: outbox_event.
    Tables Place "table" table: String [Form::Text] = None, "outbox_event";
    /// The schema of the tables, on PostgreSQL. Not set: the first of the search path.
    Tables Place "schema" schema: String [Form::Text] = None, "public";
    /// The database on MongoDB, where the URL names none.
    Tables Place "mongo-database" mongo_database: String [Form::Text] = Some("\"outbox\""), "outbox";
    /// Whether missing tables are made and old ones upgraded at the start. `false`: the relay checks them and says what to do.
    Tables Source "migrate" migrate: bool [Form::Switch] = Some("false"), "false";

    /// How often the tables are looked at when nothing hints at new rows.
    Reading Source "poll-interval" poll_interval: Span [Form::Span(10, HOUR)] = Some("\"1s\""), "1s";
    /// How many rows are read at once.
    Reading Source "poll-batch-size" poll_batch_size: u64 [Form::Count(1, 100_000)] = Some("500"), "500";
    /// How many rows may wait in memory. What does not fit is not taken.
    Reading Source "global-buffer-size" global_buffer_size: u64 [Form::Count(1, 1_000_000)] = Some("1000"), "1000";
    /// How many bytes of events, headers and names included, may wait in memory. What does not fit is not loaded. While it is sent an event needs about as much again.
    Reading Source "buffer-bytes" buffer_bytes: u64 [Form::Count(65_536, 1 << 40)] = Some("16777216"), "16777216";
    /// A row of more bytes, all its columns together, is set aside as dead without being loaded.
    Reading Source "max-row-bytes" max_row_bytes: u64 [Form::Count(2_097_152, 1 << 40)] = Some("16777216"), "16777216";
    /// Rows that have been PROCESSING for so many seconds go back to PENDING, in the layout flowcatalyst.
    Reading Source "processing-timeout-seconds" processing_timeout_seconds: u64 [Form::Count(1, 86_400)] = Some("300"), "300";
    /// How long a relay that has died keeps its work from the others.
    Reading Source "lease" lease: Span [Form::Span(300, DAY)] = Some("\"15s\""), "15s";

    /// How many groups are delivered at once.
    Delivery Source "max-concurrent-groups" max_concurrent_groups: u64 [Form::Count(1, 1_024)] = Some("10"), "10";
    /// How many events of one group go out together.
    Delivery Source "api-batch-size" api_batch_size: u64 [Form::Count(1, 10_000)] = Some("100"), "100";
    /// How often an event that failed by its own fault is tried again before it is dead.
    Delivery Source "max-retries" max_retries: u64 [Form::Count(0, 999_999)] = Some("3"), "3";
    /// How long to wait before the first retry; it doubles from one to the next.
    Delivery Source "retry-min" retry_min: Span [Form::Span(1, DAY)] = Some("\"1s\""), "1s";
    /// The longest wait before a retry.
    Delivery Source "retry-max" retry_max: Span [Form::Span(1, DAY)] = Some("\"60s\""), "60s";
    /// What a group does when one of its events has died: skip goes on with the next, block waits for an operator.
    Delivery Source "on-dead" on_dead: Word [Form::Word(&["skip", "block"])] = Some("\"skip\""), "skip";
    /// What happens to rows that were delivered. The layout flowcatalyst always keeps them.
    Delivery Source "on-done" on_done: Word [Form::Word(&["keep", "delete"])] = Some("\"keep\""), "keep";
    /// How long delivered rows are kept; `none`: for ever. Not set: 7d, and none in the layout flowcatalyst.
    Delivery Source "retention-done" retention_done: String [Form::Text] = None, "7d";
    /// How long dead rows are kept; `none`: for ever. Not set: 30d, and none in the layout flowcatalyst.
    Delivery Source "retention-dead" retention_dead: String [Form::Text] = None, "30d";
    /// Whether items without a group share the group `default`, or go side by side; in the layout flowcatalyst.
    Delivery Source "ungrouped" ungrouped: Word [Form::Word(&["default", "parallel"])] = Some("\"default\""), "default";
    /// How long ending waits for what is in memory; the rest is given back.
    Delivery Source "drain" drain: Span [Form::Span(0, HOUR)] = Some("\"30s\""), "30s";

    /// The URL of the HTTP API, without the path. Required unless there is another sink.
    Api Source "api-base-url" api_base_url: Secret [Form::Secret] = None, "https://api.example.com";
    /// The path of the batch endpoint, a template over the event. Not set: /api/events/batch, and /api/dispatch/jobs/batch for dispatch jobs.
    Api Source "api-path" api_path: String [Form::Text] = None, "/api/events/batch";
    /// The bearer token.
    Api Source "api-token" api_token: Secret [Form::Secret] = None, "…";
    /// A file that holds the bearer token; read again when the API answers 401.
    Api Source "api-token-file" api_token_file: String [Form::Text] = None, "/run/secrets/api-token";
    /// How requests are compressed.
    Api Source "api-compression" api_compression: Word [Form::Word(&["none", "gzip", "zstd"])] = Some("\"none\""), "none";
    /// How long connecting may take.
    Api Source "api-connect-timeout" api_connect_timeout: Span [Form::Span(1, HOUR)] = Some("\"10s\""), "10s";
    /// How long a request may take, its answer included.
    Api Source "api-request-timeout" api_request_timeout: Span [Form::Span(1, HOUR)] = Some("\"30s\""), "30s";

    /// The longest wait that an answer's Retry-After can ask for.
    Api Source "api-retry-after-max" api_retry_after_max: Span [Form::Span(0, DAY)] = Some("\"5m\""), "5m";
    /// How answers are read: item by item where the body says how each went, or by their status alone.
    Api Source "api-answers" api_answers: Word [Form::Word(&["item-by-item", "by-status"])] = Some("\"item-by-item\""), "item-by-item";
    /// How HTTP/2 is found: where TLS offers it, or always, without TLS too.
    Api Source "api-http2" api_http2: Word [Form::Word(&["negotiated", "prior-knowledge"])] = Some("\"negotiated\""), "negotiated";
    /// A proxy for requests. Not set: none, whatever the environment says.
    Api Source "api-proxy" api_proxy: Secret [Form::Secret] = None, "http://proxy:3128";

    /// Where events go instead of the HTTP API: the URL of a sink.
    Sinks Source "sink" sink: Secret [Form::Secret] = None, "nats://localhost/orders.{type}";
    /// A template for the subject, topic, routing key, stream or path, where the URL does not say it.
    Sinks Source "sink-destination" sink_destination: String [Form::Text] = None, "orders.{type}";
    /// How a message is made of an event: its payload as it is, or a CloudEvent with its data inside or beside it.
    Sinks Source "sink-format" sink_format: Word [Form::Word(&["raw", "cloudevents", "cloudevents-binary"])] = Some("\"raw\""), "raw";
    /// The source that CloudEvents name.
    Sinks Source "sink-source" sink_source: String [Form::Text] = Some("\"pillarbox\""), "pillarbox";
    /// Settings that are passed on to a broker's client: a table, or NAME=VALUE with commas between them.
    Sinks Source "sink-properties" sink_properties: Pairs [Form::Pairs] = None, "compression.type=zstd";
    /// A file of PEM certificates to trust besides the system's.
    Sinks Source "sink-ca-file" sink_ca_file: String [Form::Text] = None, "/etc/ssl/internal.pem";
    /// The secrets that webhooks are signed with, each `whsec_…`; several while one takes the place of another.
    Sinks Source "webhook-secrets" webhook_secrets: Secrets [Form::Secrets] = None, "whsec_…";
    /// A file that holds these secrets, one a line.
    Sinks Source "webhook-secrets-file" webhook_secrets_file: String [Form::Text] = None, "/run/secrets/webhook";
    /// Whether webhooks may go to private and loopback addresses. Addresses of cloud metadata stay forbidden.
    Sinks Source "egress-allow-private" egress_allow_private: bool [Form::Switch] = Some("false"), "false";
    /// Whether webhooks may go out without TLS.
    Sinks Source "egress-allow-http" egress_allow_http: bool [Form::Switch] = Some("false"), "false";

    /// The address of metrics, health and group actions. Not set: none. Any but a loopback address needs a token.
    Relay Relay "admin" admin: String [Form::Text] = None, "127.0.0.1:7080";
    /// The bearer token of the admin address, at least 16 characters.
    Relay Relay "admin-token" admin_token: Secret [Form::Secret] = None, "…";
    /// A file that holds this token.
    Relay Relay "admin-token-file" admin_token_file: String [Form::Text] = None, "/run/secrets/admin-token";
    /// The OpenTelemetry collector that metrics are pushed to by OTLP over HTTP, as JSON; /v1/metrics is added. Not set: none.
    Relay Relay "otlp-endpoint" otlp_endpoint: Secret [Form::Secret] = None, "http://localhost:4318";
    /// Headers for it, such as the key of a vendor: a table, or NAME=VALUE with commas between them.
    Relay Relay "otlp-headers" otlp_headers: Pairs [Form::Pairs] = None, "api-key=…";
    /// How often metrics are pushed; once more when the relay ends.
    Relay Relay "otlp-interval" otlp_interval: Span [Form::Span(100, HOUR)] = Some("\"1m\""), "1m";
    /// A label for people in lists of nodes. Not set: `relay`, and the name of the source.
    Relay Relay "label" label: String [Form::Text] = None, "relay-a";
    /// How the log is written to standard error: lines for people, or JSON.
    Relay Relay "log-format" log_format: Word [Form::Word(&["text", "json"])] = Some("\"text\""), "text";
}

/// The key of this name.
#[must_use]
pub(crate) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
