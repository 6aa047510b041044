//! The status table, row by row.

use std::time::Duration;

use pillarbox::port::Verdict;

use crate::kit::{Endpoint, Reply, batch, delivery, error, event, kinds, options, send, sink};

async fn answered(reply: Reply, count: usize) -> Vec<Verdict> {
    let endpoint = Endpoint::start([reply]).await;
    let verdicts = send(&endpoint.url(), &batch(count)).await;
    assert_eq!(endpoint.seen().len(), 1, "one request, whatever the answer");
    verdicts
}

/// RLY-042
#[tokio::test]
async fn statuses_of_success_accept_all() {
    for status in [200, 201, 202, 204, 206, 299] {
        assert_eq!(kinds(&answered(Reply::new(status), 3).await), ["accepted"; 3], "{status}");
    }
}

/// RLY-042
#[tokio::test]
async fn a_batch_refused_by_its_items_fault_is_refused_as_a_whole() {
    for status in [400, 413, 422] {
        let verdicts = answered(Reply::new(status).body("bad \u{7}item"), 3).await;
        assert_eq!(kinds(&verdicts), ["refused", "skipped", "skipped"], "{status}");
        assert_eq!(error(&verdicts[0]), format!("the endpoint answered {status}\nbad item"));
    }
}

/// RLY-042
#[tokio::test]
async fn a_run_is_refused_wherever_in_its_batch_it_stands() {
    let endpoint = Endpoint::start([Reply::new(200), Reply::new(400)]).await;
    let job = |id: &str| pillarbox::Event::text("DISPATCH_JOB", "{}").id(id).group("g");
    let batch = [event("e0", "1"), job("e1"), job("e2")].map(delivery);
    assert_eq!(kinds(&send(&endpoint.url(), &batch).await), ["accepted", "refused", "skipped"]);
    let endpoint = Endpoint::start([Reply::new(422)]).await;
    let batch = [event("e0", "1"), event("e1", "1"), event("e2", "{")].map(delivery);
    assert_eq!(kinds(&send(&endpoint.url(), &batch).await), ["refused", "skipped", "skipped"]);
}

/// RLY-042
#[tokio::test]
async fn a_lone_event_answers_for_itself() {
    for (status, kind) in [(400, "failed"), (422, "failed"), (413, "rejected")] {
        assert_eq!(kinds(&answered(Reply::new(status), 1).await), [kind], "{status}");
    }
}

/// RLY-042
#[tokio::test]
async fn every_other_status_is_the_endpoints_fault() {
    let statuses = [
        300, 301, 302, 303, 304, 307, 308, 401, 402, 403, 404, 405, 406, 408, 409, 410, 411, 415, 418, 421,
        425, 426, 428, 431, 451, 499, 500, 501, 502, 503, 504, 507, 511, 520, 599,
    ];
    for status in statuses {
        for count in [1, 3] {
            let verdicts = answered(Reply::new(status), count).await;
            assert!(kinds(&verdicts).iter().all(|kind| *kind == "unavailable"), "{status}: {verdicts:?}");
            assert!(error(&verdicts[0]).contains(&status.to_string()));
        }
    }
}

/// PBX-052
#[tokio::test]
async fn an_endpoint_that_throttles_is_at_no_fault() {
    for count in [1, 3] {
        let waits = [Reply::new(429), Reply::new(429).header("retry-after", "7")];
        for reply in waits.into_iter().chain([Reply::new(503).header("retry-after", "7")]) {
            let verdicts = answered(reply, count).await;
            assert!(kinds(&verdicts).iter().all(|kind| *kind == "throttled"), "{verdicts:?}");
        }
        let vague = answered(Reply::new(503).header("retry-after", "soon"), count).await;
        assert_eq!(kinds(&vague)[0], "unavailable");
    }
}

/// RLY-042
#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Endpoint::start([]).await;
    for status in [301, 302, 303, 307, 308] {
        let verdicts = answered(Reply::new(status).header("location", other.url()), 2).await;
        assert_eq!(kinds(&verdicts), ["unavailable"; 2]);
        assert!(error(&verdicts[0]).contains("redirects are not followed"));
    }
    assert!(other.seen().is_empty());
}

/// PBX-018
#[tokio::test]
async fn retry_after_is_honoured_with_a_cap() {
    let after = |verdict: &Verdict| match verdict {
        Verdict::Unavailable { after, .. }
        | Verdict::Throttled { after, .. }
        | Verdict::Failed { after, .. } => *after,
        other => panic!("{other:?}"),
    };
    for (status, value, expected) in [
        (429, "7", Some(7)),
        (503, "100000", Some(300)),
        (503, "soon", None),
        (301, "3", Some(3)),
        (422, "5", Some(5)),
    ] {
        let verdicts = answered(Reply::new(status).header("retry-after", value), 1).await;
        assert_eq!(after(&verdicts[0]), expected.map(Duration::from_secs), "{status} {value}");
    }
    let date = Reply::new(503)
        .header("date", "Mon, 16 Nov 2026 08:00:00 GMT")
        .header("retry-after", "Mon, 16 Nov 2026 08:00:20 GMT");
    assert_eq!(after(&answered(date, 1).await[0]), Some(Duration::from_secs(20)));
}

/// RLY-042
#[tokio::test]
async fn a_connection_that_is_refused_is_the_endpoints_fault() {
    let endpoint = Endpoint::start([]).await;
    let url = endpoint.url();
    drop(endpoint);
    let verdicts = sink(&format!("{url}/?key=s3cret"), &options()).deliver(&batch(2)).await;
    assert_eq!(kinds(&verdicts), ["unavailable"; 2]);
    assert!(error(&verdicts[0]).starts_with("could not connect"), "{verdicts:?}");
    assert!(!error(&verdicts[0]).contains("s3cret"));
}

/// RLY-042
#[tokio::test]
async fn broken_tls_is_the_endpoints_fault() {
    let endpoint = Endpoint::start([]).await;
    let verdicts = send(&endpoint.url().replace("http:", "https:"), &batch(2)).await;
    assert_eq!(kinds(&verdicts), ["unavailable"; 2]);
}
