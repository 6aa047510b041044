//! The state of a sink, as its node has published it.

use jiff::Timestamp;
use pillarbox::port::NodeInfo;
use serde::Deserialize;

use super::words::{at, error};
use super::{Hold, Reason};

#[derive(Deserialize)]
struct Published {
    sink: Option<SinkState>,
}

#[derive(Deserialize)]
struct SinkState {
    breaker: String,
    last_failure: Failure,
    next_attempt_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Failure {
    class: String,
    error: String,
    since: Timestamp,
    last_at: Timestamp,
    requests: u64,
    recovered_at: Option<Timestamp>,
}

/// The failure of a node's sink, if it fails now. Another program wrote the state: what can't be read counts as none.
pub(super) fn trouble(node: &NodeInfo) -> Option<Hold> {
    let Published { sink } = serde_json::from_str(node.state.as_deref()?).ok()?;
    let SinkState { breaker, last_failure, next_attempt_at } = sink?;
    let is_open = breaker == "open";
    if last_failure.recovered_at.is_some() && !is_open {
        return None;
    }
    let Failure { class, error: told, since, last_at, requests, .. } = last_failure;
    let (label, told, times) =
        (&node.label, error(&told), if requests == 1 { "request" } else { "requests" });
    let (since, next_probe) = (at(since), next_attempt_at.map(at));
    let next = next_probe.as_ref().map_or_else(String::new, |at| format!(" The next probe is at {at}."));
    let what = format!("{told} ({class}), {requests} failed {times} since {since}");
    let (reason, sentence) = if is_open {
        (Reason::BreakerOpen, format!("The circuit breaker of the sink of {label} is open: {what}.{next}"))
    } else {
        (Reason::SinkFailing, format!("The sink of {label} fails: {what}.{next}"))
    };
    Some(
        Hold::new(reason, sentence)
            .fact("node", label)
            .fact("failing since", since)
            .fact("last failure", at(last_at))
            .fact("class", class.as_str())
            .fact("error", told)
            .fact_if("next probe", next_probe)
            .advise(remedy(&class))
            .advise("delivery goes on by itself once the endpoint answers"),
    )
}

/// What to do about a class of failures.
fn remedy(class: &str) -> &'static str {
    match class {
        "refused" => "check that the endpoint runs, and host and port of the sink",
        "dns" => "check the host name of the sink",
        "tls" => "check the endpoint's certificate, and the certificate authorities that the sink trusts",
        "timeout" => "look at why the endpoint does not answer in time",
        "unauthorized" => "check the credentials of the sink",
        "missing" => "create the stream, topic or queue that the sink names, or correct the name",
        "throttled" => "nothing if it passes; else ask the endpoint for a higher rate",
        "not_found" => "check the path of the sink's URL",
        "server_error" => "look at the endpoint's log",
        "refuses_all" => {
            "compare what the endpoint accepts with what the sink sends: it has refused every event"
        }
        _ => "look at the log of the node, which has the whole error",
    }
}
