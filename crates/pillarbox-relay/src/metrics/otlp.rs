//! Pushes metrics to an OpenTelemetry collector by OTLP over HTTP, as JSON.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillarbox::port::Cause;
use pillarbox_sinks::ensure_tls_provider;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{COUNTERS, FAILURES, GAUGES, Metric, Reading};
use crate::config::OtlpConfig;
use crate::relay::Shared;

/// Timeout of a push.
const ANSWER: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);
/// OTLP's aggregation temporality for counters that count from the start of the process.
const CUMULATIVE: u8 = 2;

/// Pushes metrics in the background until it is closed or dropped.
pub(crate) struct Exporter {
    stop: CancellationToken,
    task: JoinSet<()>,
}

struct Pusher {
    http: reqwest::Client,
    config: OtlpConfig,
    headers: HeaderMap,
    resource: Value,
    begun: SystemTime,
    /// Whether the last push failed. Only the first failure in a row is logged as a warning.
    failing: bool,
}

impl Exporter {
    /// Starts pushing at the configured interval.
    pub(crate) fn start(
        config: OtlpConfig,
        label: Option<&str>,
        shared: Arc<Shared>,
    ) -> Result<Self, String> {
        let mut pusher = Pusher::new(config, label)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let interval = pusher.config.interval;
            while stopped.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
                // Shutdown cancels a push in progress; the final push below contains its values too.
                stopped.run_until_cancelled(pusher.push(&shared.readings())).await;
            }
            pusher.push(&shared.readings()).await;
        });
        Ok(Self { stop, task })
    }

    /// Pushes once more and stops.
    pub(crate) async fn close(mut self) {
        self.stop.cancel();
        if let Some(Err(error)) = self.task.join_next().await {
            tracing::warn!(%error, "the export of metrics failed");
        }
    }
}

impl Pusher {
    fn new(config: OtlpConfig, label: Option<&str>) -> Result<Self, String> {
        ensure_tls_provider();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT)
            .timeout(ANSWER)
            .user_agent(concat!("pillarbox/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("metrics can't be sent: {error}"))?;
        let headers = config.headers.iter().filter_map(|(name, value)| header(name, value.reveal()));
        let headers = headers.collect();
        Ok(Self {
            http,
            headers,
            resource: resource(label),
            config,
            begun: SystemTime::now(),
            failing: false,
        })
    }

    async fn push(&mut self, readings: &[Reading]) {
        let (was_failing, sent) = (self.failing, self.send(readings).await);
        self.failing = sent.is_err();
        match sent {
            Err(error) if !was_failing => {
                tracing::warn!(error, "the collector does not take metrics; the next ones hold these too");
            }
            Err(error) => tracing::debug!(error, "the collector still does not take metrics"),
            Ok(()) if was_failing => tracing::info!("the collector takes metrics again"),
            Ok(()) => {}
        }
    }

    /// Posts one request. The error does not mention the URL, which may contain a secret.
    async fn send(&self, readings: &[Reading]) -> Result<(), String> {
        let body = body(readings, &self.resource, self.begun, SystemTime::now()).to_string();
        let post = self.http.post(self.config.url.reveal()).headers(self.headers.clone());
        let post = post.header(reqwest::header::CONTENT_TYPE, "application/json").body(body);
        let answer = post.send().await.map_err(|error| match (error.is_timeout(), error.is_connect()) {
            (true, _) => format!("no answer in {ANSWER:?}"),
            (false, true) => "could not connect".to_owned(),
            (false, false) => "the request failed".to_owned(),
        })?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

/// Whether this is a valid HTTP header.
pub(crate) fn is_header(name: &str, value: &str) -> bool {
    header(name, value).is_some()
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name.parse().ok()?, value))
}

/// The OTLP resource. The random instance id distinguishes relays with the same settings.
fn resource(label: Option<&str>) -> Value {
    let mut attributes = vec![
        attribute("service.name", "pillarbox-relay"),
        attribute("service.version", env!("CARGO_PKG_VERSION")),
        attribute("service.instance.id", &format!("{:032x}", fastrand::u128(..))),
    ];
    attributes.extend(label.map(|label| attribute("pillarbox.label", label)));
    json!({ "attributes": attributes })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The body of one request. OTLP's JSON writes 64-bit integers as strings.
fn body(readings: &[Reading], resource: &Value, begun: SystemTime, now: SystemTime) -> Value {
    let counters = COUNTERS.iter().enumerate().map(|(index, metric)| {
        let points =
            points(readings, begun, now, |reading| ("asInt", reading.counters[index].to_string().into()));
        told(metric, "sum", sum(points))
    });
    let failures = Cause::CLASSES.iter().enumerate().flat_map(|(index, class)| {
        let count = |reading: &Reading| ("asInt", reading.failures[index].to_string().into());
        let mut points = points(readings, begun, now, count);
        for point in &mut points {
            point["attributes"]
                .as_array_mut()
                .into_iter()
                .for_each(|all| all.push(attribute("class", class)));
        }
        points
    });
    let failures = told(&FAILURES, "sum", sum(failures.collect()));
    let gauges = GAUGES.iter().enumerate().map(|(index, metric)| {
        let points = points(readings, begun, now, |reading| ("asDouble", reading.gauges[index].into()));
        told(metric, "gauge", json!({ "dataPoints": points }))
    });
    let scope = json!({ "name": "pillarbox", "version": env!("CARGO_PKG_VERSION") });
    let metrics: Vec<Value> = counters.chain([failures]).chain(gauges).collect();
    json!({ "resourceMetrics": [
        { "resource": resource, "scopeMetrics": [{ "scope": scope, "metrics": metrics }] }
    ] })
}

/// A cumulative, monotonic counter.
fn sum(points: Vec<Value>) -> Value {
    json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true })
}

fn told(metric: &Metric, kind: &str, data: Value) -> Value {
    json!({ "name": metric.otel, "unit": metric.unit, "description": metric.help, kind: data })
}

fn points(
    readings: &[Reading],
    begun: SystemTime,
    now: SystemTime,
    value: impl Fn(&Reading) -> (&'static str, Value),
) -> Vec<Value> {
    let point = |reading: &Reading| {
        let (form, value) = value(reading);
        json!({
            "attributes": [attribute("source", &reading.source), attribute("table", &reading.table)],
            "startTimeUnixNano": nanoseconds(begun),
            "timeUnixNano": nanoseconds(now),
            form: value,
        })
    };
    readings.iter().map(point).collect()
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    /// PBX-021: the forms that OTLP's JSON asks for.
    #[test]
    fn a_request_has_the_form_of_otlp() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let body = body(&[sample("shop"), sample("crm")], &resource(Some("relay-a")), at(1), at(2));
        let told = &body["resourceMetrics"][0];
        assert_eq!(told["resource"]["attributes"][0], attribute("service.name", "pillarbox-relay"));
        assert_eq!(told["resource"]["attributes"][3], attribute("pillarbox.label", "relay-a"));
        let metrics = told["scopeMetrics"][0]["metrics"].as_array().unwrap();
        assert_eq!(metrics.len(), COUNTERS.len() + GAUGES.len() + 1);
        let failures = &metrics[COUNTERS.len()];
        assert_eq!(failures["name"], "pillarbox.endpoint_failures");
        let points = failures["sum"]["dataPoints"].as_array().unwrap();
        assert_eq!(points.len(), 2 * Cause::CLASSES.len());
        assert_eq!(points[0]["attributes"][2], attribute("class", "refused"));
        let delivered = &metrics[0];
        assert_eq!(
            (&delivered["name"], &delivered["unit"]),
            (&"pillarbox.delivered".into(), &"{event}".into())
        );
        assert_eq!(delivered["sum"]["aggregationTemporality"], 2);
        assert_eq!(delivered["sum"]["isMonotonic"], true);
        let point = &delivered["sum"]["dataPoints"][1];
        assert_eq!(
            *point,
            json!({
                "attributes": [attribute("source", "crm"), attribute("table", "outbox_event")],
                "startTimeUnixNano": "1000000000",
                "timeUnixNano": "2000000000",
                "asInt": "5",
            })
        );
        let oldest = metrics.iter().find(|metric| metric["name"] == "pillarbox.oldest").unwrap();
        assert_eq!(oldest["gauge"]["dataPoints"][0]["asDouble"], 1.5);
    }

    #[test]
    fn a_header_that_can_not_be_sent_is_none() {
        assert!(is_header("api-key", "secret"));
        assert!(!is_header("api key", "secret") && !is_header("api-key", "two\nlines"));
    }
}
