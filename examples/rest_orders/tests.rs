//! Runs the service on a free port and talks to it over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::fixture::Fixture;
use super::*;

/// Far more than a loaded machine needs; only a test that has failed waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    mails: mpsc::Receiver<Notification>,
    stop: oneshot::Sender<()>,
    served: JoinSet<anyhow::Result<()>>,
}

impl Running {
    async fn start(pool: PgPool) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let ((sent, mails), (stop, stopped)) = (mpsc::channel(16), oneshot::channel::<()>());
        let mut served = JoinSet::new();
        served.spawn(
            async move { serve(pool, socket, Notifier::new(sent), async { drop(stopped.await) }).await },
        );
        Self { address, mails, stop, served }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = timeout(PATIENCE, client.request(request)).await.unwrap().unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn order(&self, customer: &str, product: &str, pieces: i64) -> (u16, Value) {
        let order = json!({"customer": customer, "product": product, "pieces": pieces});
        self.ask("POST", "/orders", &order.to_string()).await
    }

    async fn mail(&mut self) -> Notification {
        timeout(PATIENCE, self.mails.recv()).await.unwrap().unwrap()
    }

    async fn end(mut self) {
        self.stop.send(()).unwrap();
        timeout(PATIENCE, self.served.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(self.mails.recv().await, None, "more was delivered than was ordered");
    }
}

/// EVT-170, PBX-024: an order that was taken is notified once; one that was refused, by the shop or by its stock in the
/// middle of the transaction, leaves neither row nor event.
#[tokio::test]
async fn orders_over_http_are_notified_and_refused_ones_leave_no_event() {
    let Some(fixture) = Fixture::new("rest_orders").await else { return };
    let mut service = Running::start(fixture.pool().await).await;

    let (status, taken) = service.order("ada", "kettle", 2).await;
    assert_eq!(status, 201, "{taken}");
    let order = taken["id"].as_i64().unwrap();
    assert_eq!(service.mail().await, Notification { order, customer: "ada".to_owned() });
    let (status, shown) = service.ask("GET", &format!("/orders/{order}"), "").await;
    let expected =
        json!({"id": order, "customer": "ada", "product": "kettle", "pieces": 2, "notified": true});
    assert_eq!((status, shown), (200, expected));

    let (status, refused) = service.order("bob", "kettle", 2).await;
    assert_eq!((status, refused), (409, json!({"error": "there are not so many pieces left"})));
    let (status, taken) = service.order("bob", "kettle", 1).await;
    assert_eq!(status, 201, "{taken}");
    assert_eq!(service.mail().await.customer, "bob");
    service.end().await;

    let pool = fixture.pool().await;
    let count = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM notification), \
        (SELECT count(*) FROM outbox_event), (SELECT count(*) FROM outbox_event WHERE status = 1), \
        (SELECT count(*) FROM outbox_node)";
    let counts: (i64, i64, i64, i64, i64) = sqlx::query_as(count).fetch_one(&pool).await.unwrap();
    assert_eq!(counts, (2, 2, 2, 2, 0), "orders, notifications, events, done events, nodes");
    pool.close().await;
    fixture.clear().await;
}

/// EVT-170
#[tokio::test]
async fn bad_input_is_refused_with_what_is_wrong() {
    let Some(fixture) = Fixture::new("rest_orders").await else { return };
    let service = Running::start(fixture.pool().await).await;

    assert_eq!(service.ask("GET", "/healthz", "").await, (200, json!({"status": "up"})));
    for (body, status, says) in [
        ("", 400, "EOF"),
        ("{\"customer\":", 400, "EOF"),
        (r#"{"customer":"ada","product":"teapot","pieces":"two"}"#, 400, "invalid type"),
        (r#"{"customer":"ada","product":"teapot"}"#, 400, "missing field `pieces`"),
        (r#"{"customer":"ada","product":"teapot","pieces":1,"price":0}"#, 400, "unknown field `price`"),
        (r#"{"customer":" ","product":"teapot","pieces":1}"#, 422, "customer: must not be empty"),
        (r#"{"customer":"ada","product":"teapot","pieces":0}"#, 422, "pieces: must be from 1"),
        (r#"{"customer":"ada","product":"boat","pieces":1}"#, 422, "product: there is no such one"),
    ] {
        let (answered, error) = service.ask("POST", "/orders", body).await;
        assert_eq!(answered, status, "{body}: {error}");
        assert!(error["error"].as_str().unwrap().contains(says), "{body}: {error}");
    }
    for (path, status) in [("/orders/7", 404), ("/orders/seven", 400), ("/nowhere", 404)] {
        let (answered, error) = service.ask("GET", path, "").await;
        assert_eq!(answered, status, "{path}: {error}");
    }
    service.end().await;
    fixture.clear().await;
}
