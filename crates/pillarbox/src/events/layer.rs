//! A tower layer, for axum and others, that runs each request with a transaction as its context.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::{ScopeError, Writer};
use crate::port::Begin;

/// Runs each request in a transaction: commits if the response status is below 400, rolls back otherwise.
///
/// Handlers reach the transaction through [`super::TaskContext`]. If it cannot begin or commit, the response
/// is 500 with an empty body.
pub struct TransactionLayer<S> {
    writer: Writer<S>,
}

impl<S: Begin> TransactionLayer<S> {
    /// Creates a layer that opens its transactions with this writer.
    #[must_use]
    pub fn new(writer: Writer<S>) -> Self {
        Self { writer }
    }
}

impl<S> Clone for TransactionLayer<S> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone() }
    }
}

impl<S: Begin, I> Layer<I> for TransactionLayer<S> {
    type Service = TransactionService<S, I>;

    fn layer(&self, inner: I) -> Self::Service {
        TransactionService { writer: self.writer.clone(), inner }
    }
}

/// The service created by [`TransactionLayer`].
pub struct TransactionService<S, I> {
    writer: Writer<S>,
    inner: I,
}

impl<S, I: Clone> Clone for TransactionService<S, I> {
    fn clone(&self) -> Self {
        Self { writer: self.writer.clone(), inner: self.inner.clone() }
    }
}

impl<S, I, Request, B> Service<Request> for TransactionService<S, I>
where
    S: Begin,
    I: Service<Request, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    I::Future: Send,
    Request: Send + 'static,
    B: Default + Send + 'static,
{
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // Only the instance that `poll_ready` reported ready may be called, so the clone
        // stays for the next request.
        let waiting = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, waiting);
        let writer = self.writer.clone();
        Box::pin(async move {
            let answer = async move {
                let response = match ready.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                };
                let failed = response.status().is_client_error() || response.status().is_server_error();
                if failed { Err(response) } else { Ok(response) }
            };
            let response = match writer.scope(answer).await {
                Ok(response) | Err(ScopeError::Body(response)) => response,
                Err(ScopeError::Begin(error)) => broken(&error),
                Err(ScopeError::Commit(error)) => broken(&error),
            };
            Ok(response)
        })
    }
}

fn broken<B: Default>(error: &dyn std::error::Error) -> Response<B> {
    tracing::error!(%error, "a request's transaction failed");
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}
