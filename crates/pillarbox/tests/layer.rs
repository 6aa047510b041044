//! The transaction layer around an axum router.
#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use pillarbox::Event;
use pillarbox::events::{Current, TaskContext, TransactionContext, TransactionLayer, WriteError};
use pillarbox::memory::MemoryStore;
use pillarbox::testing::TestOutbox;
use tower_service::Service;

async fn write_order() -> Result<(), WriteError> {
    assert!(TransactionContext::<MemoryStore>::is_active(&TaskContext), "a handler has a transaction");
    TransactionContext::<MemoryStore>::write(&TaskContext, Event::text("OrderPlaced", "{}")).await?;
    Ok(())
}

/// The transaction of the request, taken by its type.
async fn extracted(mut tx: Current<MemoryStore>) -> StatusCode {
    tx.write(Event::text("OrderPlaced", "{}")).unwrap();
    StatusCode::CREATED
}

fn router(outbox: &TestOutbox) -> Router {
    let good =
        || async { write_order().await.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::CREATED) };
    let bad =
        || async { write_order().await.map_or(StatusCode::INTERNAL_SERVER_ERROR, |()| StatusCode::CONFLICT) };
    Router::new()
        .route("/good", post(good))
        .route("/bad", post(bad))
        .route("/extracted", post(extracted))
        .layer(TransactionLayer::new(outbox.writer().clone()))
}

async fn answer(router: &mut Router, path: &str) -> StatusCode {
    let request = Request::post(path).body(Body::empty()).unwrap();
    router.call(request).await.unwrap().status()
}

/// EVT-024
#[tokio::test]
async fn a_request_commits_if_it_succeeds_and_rolls_back_if_it_fails() {
    let outbox = TestOutbox::new();
    let mut router = router(&outbox);
    assert_eq!(answer(&mut router, "/good").await, StatusCode::CREATED);
    assert_eq!(outbox.written().await.len(), 1);
    assert_eq!(answer(&mut router, "/bad").await, StatusCode::CONFLICT);
    assert_eq!(outbox.written().await.len(), 1, "a failed request leaves no event");
}

/// EVT-024, PBX-214
#[tokio::test]
async fn a_handler_takes_the_transaction_of_its_request() {
    let outbox = TestOutbox::new();
    assert_eq!(answer(&mut router(&outbox), "/extracted").await, StatusCode::CREATED);
    assert_eq!(outbox.written().await.len(), 1);
    let mut without_layer = Router::new().route("/", post(extracted));
    assert_eq!(answer(&mut without_layer, "/").await, StatusCode::INTERNAL_SERVER_ERROR);
}

/// EVT-024, EVT-020
#[tokio::test]
async fn writing_outside_a_scope_fails_at_once() {
    let written =
        TransactionContext::<MemoryStore>::write(&TaskContext, Event::text("OrderPlaced", "{}")).await;
    assert!(matches!(written, Err(WriteError::NoTransaction)));
    assert!(!TransactionContext::<MemoryStore>::is_active(&TaskContext));
}
