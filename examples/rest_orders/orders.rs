//! Taking orders and showing them.

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use pillarbox::{AggregateType, Event};
use serde::Deserialize;

use crate::notify::Notification;
use crate::response::OrderResponse;
use crate::{Shop, ShopEvent};

#[derive(AggregateType)]
struct Order;

/// What a client posts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOrder {
    customer: String,
    product: String,
    pieces: i64,
}

impl NewOrder {
    fn read(body: &[u8]) -> Result<Self, OrderResponse> {
        let order: Self = serde_json::from_slice(body)
            .map_err(|error| OrderResponse::error(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let wrong = match &order {
            order if order.customer.trim().is_empty() => "customer: must not be empty",
            order if !(1..=1_000).contains(&order.pieces) => "pieces: must be from 1 to 1000",
            _ => return Ok(order),
        };
        Err(OrderResponse::error(StatusCode::UNPROCESSABLE_ENTITY, wrong))
    }
}

/// `POST /orders`
pub(crate) async fn place(State(shop): State<Shop>, body: Bytes) -> Result<OrderResponse, OrderResponse> {
    let order = NewOrder::read(&body)?;
    let id = book(&shop, order).await?;
    Ok(OrderResponse::json(StatusCode::CREATED, &serde_json::json!({ "id": id })))
}

/// The order, its event and the stock change together, or nothing does: whatever returns early rolls back.
async fn book(shop: &Shop, order: NewOrder) -> Result<i64, OrderResponse> {
    let mut tx = shop.outbox.begin().await.map_err(OrderResponse::unavailable)?;
    let insert = "INSERT INTO orders (customer, product, pieces) \
        SELECT $1, product, $3 FROM stock WHERE product = $2 RETURNING id";
    let id: Option<i64> = sqlx::query_scalar(insert)
        .bind(&order.customer)
        .bind(&order.product)
        .bind(order.pieces)
        .fetch_optional(tx.conn())
        .await
        .map_err(OrderResponse::unavailable)?;
    let id = id.ok_or_else(|| {
        OrderResponse::error(StatusCode::UNPROCESSABLE_ENTITY, "product: there is no such one")
    })?;

    let placed = Notification { order: id, customer: order.customer };
    let event = Event::json(ShopEvent::OrderPlaced, &placed).map_err(OrderResponse::unavailable)?;
    tx.write(event.aggregate(Order, id)).map_err(OrderResponse::unavailable)?;

    let take = "UPDATE stock SET pieces = pieces - $2 WHERE product = $1 AND pieces >= $2";
    let taken = sqlx::query(take).bind(&order.product).bind(order.pieces).execute(tx.conn()).await;
    if taken.map_err(OrderResponse::unavailable)?.rows_affected() == 0 {
        return Err(OrderResponse::error(StatusCode::CONFLICT, "there are not so many pieces left"));
    }
    tx.commit().await.map_err(OrderResponse::unavailable)?;
    Ok(id)
}

/// `GET /orders/{id}`
pub(crate) async fn show(
    State(shop): State<Shop>,
    id: Result<Path<i64>, PathRejection>,
) -> Result<OrderResponse, OrderResponse> {
    let Ok(Path(id)) = id else {
        return Err(OrderResponse::error(StatusCode::BAD_REQUEST, "the id of an order is a number"));
    };
    let select = "SELECT customer, product, pieces, EXISTS (SELECT 1 FROM notification WHERE order_id = id) \
        FROM orders WHERE id = $1";
    let row: Option<(String, String, i64, bool)> = sqlx::query_as(select)
        .bind(id)
        .fetch_optional(&shop.pool)
        .await
        .map_err(OrderResponse::unavailable)?;
    match row {
        Some((customer, product, pieces, notified)) => Ok(OrderResponse::json(
            StatusCode::OK,
            &serde_json::json!({
                "id": id, "customer": customer, "product": product, "pieces": pieces, "notified": notified
            }),
        )),
        None => Err(OrderResponse::error(StatusCode::NOT_FOUND, "there is no such order")),
    }
}
