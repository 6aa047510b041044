//! A REST service: an order and its event go into PostgreSQL in one transaction; the notification follows. EVT-170
//!
//! `DATABASE_URL=postgres://… cargo run --example rest_orders`, then
//! `curl -i localhost:3000/orders -d '{"customer":"ada","product":"teapot","pieces":2}'`
#![expect(clippy::print_stdout, reason = "an example tells people what happens")]

mod notify;
mod orders;
mod response;

use std::env;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use pillarbox::{EventType, Outbox};
use pillarbox_postgres::PostgresStore;
use sqlx::Executor;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use notify::{Notification, Notifier};
use response::OrderResponse;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
enum ShopEvent {
    OrderPlaced,
}

const TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS stock (product text PRIMARY KEY, pieces bigint NOT NULL CHECK (pieces >= 0));
    INSERT INTO stock VALUES ('teapot', 100), ('kettle', 3) ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        customer text NOT NULL, product text NOT NULL REFERENCES stock, pieces bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS notification (event_id text PRIMARY KEY, order_id bigint NOT NULL)";

/// What every request gets.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    outbox: Outbox<PostgresStore>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = env::var("DATABASE_URL").context("set DATABASE_URL, as in postgres://me@localhost/shop")?;
    let address = env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let pool = PgPoolOptions::new().max_connections(10).connect(&url).await.context("no database")?;
    let socket = TcpListener::bind(&address).await.with_context(|| format!("{address} can't be used"))?;
    println!("listening on http://{}", socket.local_addr()?);

    let (sent, mut mails) = mpsc::channel::<Notification>(16);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        println!("stopping: requests end, then deliveries");
    };
    let print = async {
        while let Some(Notification { order, customer }) = mails.recv().await {
            println!("mail to {customer}: order {order} is placed");
        }
    };
    let (served, ()) = tokio::join!(serve(pool, socket, Notifier::new(sent), stop), print);
    served
}

/// Serves until it is told to stop; then requests that are under way end first, and deliveries after them.
async fn serve(
    pool: PgPool,
    socket: TcpListener,
    notifier: Notifier,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    pool.execute(TABLES).await.context("the shop has no tables")?;
    let outbox = Outbox::single_node(PostgresStore::new(pool.clone()))
        .migrate()
        .listener(ShopEvent::OrderPlaced, notifier.with(pool.clone()))
        .label("rest_orders")
        .start()
        .await?;

    let shop = Shop { pool: pool.clone(), outbox: outbox.clone() };
    let routes = Router::new()
        .route("/orders", post(orders::place))
        .route("/orders/{id}", get(orders::show))
        .route("/healthz", get(health))
        .fallback(async || OrderResponse::error(StatusCode::NOT_FOUND, "there is nothing here"))
        .with_state(shop);
    let served = outbox.run_until(axum::serve(socket, routes).with_graceful_shutdown(stop)).await;
    pool.close().await;
    Ok(served?)
}

/// Whether the database answers: without it no order can be taken.
async fn health(State(shop): State<Shop>) -> OrderResponse {
    match shop.pool.execute("SELECT 1").await {
        Ok(_) => OrderResponse::json(StatusCode::OK, &serde_json::json!({"status": "up"})),
        Err(_) => OrderResponse::error(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer"),
    }
}

#[cfg(test)]
#[path = "../fixture.rs"]
mod fixture;
#[cfg(test)]
mod tests;
