//! Posts an order to the receiver by HTTP.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pillarbox::Event;

use crate::receiver::WORKER;

const PATIENCE: Duration = Duration::from_secs(5);

/// The answer of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PostResult {
    /// The receiver accepted the order.
    Taken,
    /// The receiver refused the order for now.
    Refused(StatusCode),
    /// The receiver will never accept the order.
    Rejected(StatusCode),
    /// There was no answer.
    Silence,
}

/// A client of the receiver. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    client: Client<HttpConnector, Full<Bytes>>,
    receiver: Uri,
    worker: String,
}

impl Post {
    pub(crate) fn new(receiver: Uri, worker: String) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), receiver, worker }
    }

    pub(crate) async fn send(&self, event: &Event) -> PostResult {
        let body = Full::new(Bytes::copy_from_slice(event.payload().as_bytes()));
        let request = Request::post(self.receiver.clone())
            .header("idempotency-key", event.id().as_str())
            .header(WORKER, self.worker.as_str())
            .body(body);
        let Ok(request) = request else { return PostResult::Silence };
        match tokio::time::timeout(PATIENCE, self.client.request(request)).await {
            Ok(Ok(response)) => judged(response.status()),
            Ok(Err(_)) | Err(_) => PostResult::Silence,
        }
    }
}

fn judged(status: StatusCode) -> PostResult {
    match status {
        _ if status.is_success() => PostResult::Taken,
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => PostResult::Rejected(status),
        _ => PostResult::Refused(status),
    }
}
