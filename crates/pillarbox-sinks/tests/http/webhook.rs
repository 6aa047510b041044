//! The webhook sink: signed, one by one, and only where egress rules allow.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillarbox::port::Delivery;
use pillarbox_sinks::{Compression, Egress, Format, Secret, SinkOptions, open};
use sha2::{Digest as _, Sha256};

use crate::kit::{Endpoint, Reply, SECRET, Seen, batch, delivery, error, event, kinds, options, sink};

fn webhook(endpoint: &Endpoint, path: &str) -> String {
    format!("webhook+{}{path}", endpoint.url())
}

/// HMAC-SHA256 as RFC 2104 writes it down, from the hash alone.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

fn signature(secret: &str, seen: &Seen) -> String {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let (id, time) = (seen.header("webhook-id").unwrap(), seen.header("webhook-timestamp").unwrap());
    let message = [format!("{id}.{time}.").as_bytes(), &seen.body].concat();
    format!("v1,{}", STANDARD.encode(hmac(&key, &message)))
}

/// PBX-020
#[tokio::test]
async fn each_event_is_one_signed_request() {
    let endpoint = Endpoint::start([]).await;
    let odd = "{\"b\" : 1.50}\n";
    let batch = [event("e.0", odd).header("x-region", "eu"), event("e1", "rubbish")].map(delivery);
    let verdicts = sink(&webhook(&endpoint, "/in/{type}?id={id}"), &options()).deliver(&batch).await;
    assert_eq!(kinds(&verdicts), ["accepted"; 2]);
    let seen = endpoint.seen();
    assert_eq!((seen[0].body.as_ref(), seen[1].body.as_ref()), (odd.as_bytes(), &b"rubbish"[..]));
    assert_eq!(seen[0].header("webhook-id"), Some("e%2E0"));
    assert_eq!(seen[0].header("x-region"), Some("eu"));
    assert_eq!(seen[0].uri, "/in/EVENT?id=e.0");
    for seen in &seen {
        assert_eq!(seen.header("webhook-signature").unwrap(), signature(SECRET, seen));
        let time: i64 = seen.header("webhook-timestamp").unwrap().parse().unwrap();
        assert!((jiff::Timestamp::now().as_second() - time).abs() < 300);
    }
}

/// PBX-023
#[tokio::test]
async fn every_secret_signs_while_one_follows_another() {
    let endpoint = Endpoint::start([]).await;
    let next = format!("whsec_{}", STANDARD.encode([7; 32]));
    let secrets = vec![Secret::new(&next), Secret::new(SECRET)];
    sink(&webhook(&endpoint, "/"), &SinkOptions { secrets, ..options() }).deliver(&batch(1)).await;
    let seen = &endpoint.seen()[0];
    let expected = format!("{} {}", signature(&next, seen), signature(SECRET, seen));
    assert_eq!(seen.header("webhook-signature").unwrap(), expected);
}

/// RLY-042, PBX-010
#[tokio::test]
async fn the_status_table_holds_for_each_event_and_whatever_is_not_taken_stops_the_rest() {
    for (status, kind) in [
        (200, "accepted"),
        (204, "accepted"),
        (301, "unavailable"),
        (400, "failed"),
        (401, "unavailable"),
        (404, "unavailable"),
        (410, "unavailable"),
        (413, "rejected"),
        (422, "failed"),
        (429, "throttled"),
        (500, "unavailable"),
    ] {
        let endpoint = Endpoint::start([Reply::new(200), Reply::new(status)]).await;
        let verdicts = sink(&webhook(&endpoint, "/"), &options()).deliver(&batch(3)).await;
        let goes_on = kind == "accepted";
        let last = if goes_on { "accepted" } else { "skipped" };
        assert_eq!(kinds(&verdicts), ["accepted", kind, last], "{status}");
        assert_eq!(endpoint.seen().len(), if goes_on { 3 } else { 2 });
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_says_so() {
    let endpoint = Endpoint::start([Reply::new(410)]).await;
    let verdicts = sink(&webhook(&endpoint, "/"), &options()).deliver(&batch(1)).await;
    assert!(error(&verdicts[0]).contains("the endpoint is gone"), "{verdicts:?}");
}

/// PBX-020
#[tokio::test]
async fn cloudevents_go_in_both_modes_with_their_trace() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let batch = [delivery(event("e0", "{}").header("traceparent", trace))];
    let deliver = async |format: Format, batch: &[Delivery]| {
        let endpoint = Endpoint::start([]).await;
        let options = SinkOptions { format, ..options() };
        sink(&webhook(&endpoint, "/"), &options).deliver(batch).await;
        endpoint.seen().remove(0)
    };
    let binary = deliver(Format::CloudEventsBinary, &batch).await;
    assert_eq!(binary.header("ce-id"), Some("e0"));
    assert_eq!(binary.header("ce-traceparent"), Some(trace));
    assert_eq!(binary.header("traceparent"), Some(trace));
    assert_eq!(binary.header("content-type"), Some("application/json"));
    let structured = deliver(Format::CloudEventsStructured, &batch).await;
    assert_eq!(structured.header("traceparent"), Some(trace));
    assert_eq!(structured.header("content-type"), Some("application/cloudevents+json"));
}

/// PBX-023
#[tokio::test]
async fn names_that_lead_to_internal_addresses_are_not_connected_to() {
    let endpoint = Endpoint::start([]).await;
    let strict = SinkOptions {
        egress: Egress { plain_http: true, internal: false, ports: vec![endpoint.port()] },
        ..options()
    };
    for host in ["localhost", "LOCALHOST.", "foo.localhost"] {
        let url = format!("webhook+http://{host}:{}/", endpoint.port());
        let verdicts = sink(&url, &strict).deliver(&batch(1)).await;
        assert_eq!(kinds(&verdicts), ["unavailable"], "{host}");
    }
    let url = format!("webhook+http://localhost:{}/", endpoint.port());
    let verdicts = sink(&url, &strict).deliver(&batch(1)).await;
    assert!(error(&verdicts[0]).contains("loopback"), "{verdicts:?}");
    assert!(endpoint.seen().is_empty());
    let open = SinkOptions { egress: Egress { internal: true, ..strict.egress.clone() }, ..strict };
    assert_eq!(kinds(&sink(&url, &open).deliver(&batch(1)).await), ["accepted"]);
}

/// PBX-023
#[tokio::test]
async fn what_egress_rules_forbid_is_refused_at_the_start() {
    let strict = SinkOptions { egress: Egress::default(), ..options() };
    for url in [
        "webhook+http://example.com/",
        "webhook+https://127.0.0.1/",
        "webhook+https://[::ffff:169.254.169.254]/",
        "webhook+https://2130706433/",
        "webhook+https://example.com:5432/",
        "webhook+https://user:s3cret@example.com/",
    ] {
        let error = open(url, &strict).err().unwrap_or_else(|| panic!("{url}")).to_string();
        assert!(!error.contains("s3cret"));
    }
    let open_wide = SinkOptions { egress: Egress { internal: true, ..Egress::default() }, ..options() };
    assert!(open("webhook+https://169.254.169.254/", &open_wide).is_err());
    assert!(open("webhook+https://10.0.0.1/", &open_wide).is_ok());
    assert!(open("webhook+https://example.com/", &strict).is_ok());
}

#[tokio::test]
async fn options_that_do_not_fit_are_refused() {
    let url = "webhook+https://example.com/";
    let refused = |options: SinkOptions| open(url, &options).err().unwrap().to_string();
    assert!(refused(SinkOptions { secrets: Vec::new(), ..options() }).contains("secrets"));
    assert!(refused(SinkOptions { compression: Compression::Gzip, ..options() }).contains("compression"));
    let proxy = Some(Secret::new("http://u:s3cret@proxy/"));
    assert!(refused(SinkOptions { proxy, ..options() }).contains("proxy"));
    assert!(refused(SinkOptions { destination: Some("/x".into()), ..options() }).contains("destination"));
    let ca_file = Some("no/such/file".into());
    assert!(refused(SinkOptions { ca_file, ..options() }).contains("ca-file"));
}
