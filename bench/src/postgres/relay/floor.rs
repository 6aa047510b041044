//! The floor: one connection, one HTTP client, nothing that a crash or a failure would need.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pillarbox_postgres::sqlx::postgres::PgConnection;
use pillarbox_postgres::sqlx::{Connection, query, query_as};

use super::{AT_ONCE, BATCH, BUFFER, Fixture};

type Http = Client<HttpConnector, Full<Bytes>>;

/// Reads in order, posts what belongs together, deletes.
pub(super) async fn native(fixture: &Fixture, url: &str) -> anyhow::Result<()> {
    let (mut connection, http) = (connect(fixture).await?, http());
    let mut after = 0_i64;
    loop {
        let rows: Vec<(i64, String, String)> = query_as(
            "SELECT seq, message_group, payload FROM outbox_event WHERE status IN (0, 2) AND seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(after)
        .bind(i64::try_from(BUFFER)?)
        .fetch_all(&mut connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.0;
        let numbers: Vec<i64> = rows.iter().map(|row| row.0).collect();
        post_all(&http, url, rows.into_iter().map(|(_, group, payload)| (group, payload))).await?;
        query("DELETE FROM outbox_event WHERE seq = ANY($1)").bind(numbers).execute(&mut connection).await?;
    }
}

/// Claims as seed 003's documentation says, posts, marks as completed.
pub(super) async fn items(fixture: &Fixture, url: &str) -> anyhow::Result<()> {
    let (mut connection, http) = (connect(fixture).await?, http());
    loop {
        let rows: Vec<(String, String, String)> = query_as(
            "WITH selected AS (SELECT id FROM outbox_events WHERE status = 'PENDING' \
                 ORDER BY message_group, created_at LIMIT $1 FOR UPDATE SKIP LOCKED) \
             UPDATE outbox_events t SET status = 'PROCESSING', processed_at = now() FROM selected s WHERE t.id = s.id \
             RETURNING t.id, t.message_group, t.payload",
        )
        .bind(i64::try_from(BUFFER)?)
        .fetch_all(&mut connection)
        .await?;
        if rows.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = rows.iter().map(|row| row.0.clone()).collect();
        post_all(&http, url, rows.into_iter().map(|(_, group, payload)| (group, payload))).await?;
        query("UPDATE outbox_events SET status = 'COMPLETED', processed_at = now() WHERE id = ANY($1)")
            .bind(ids)
            .execute(&mut connection)
            .await?;
    }
}

/// Done marks need not survive a crash, as in the store.
async fn connect(fixture: &Fixture) -> anyhow::Result<PgConnection> {
    let mut connection = PgConnection::connect_with(fixture.options()).await?;
    query("SET synchronous_commit = off").execute(&mut connection).await?;
    Ok(connection)
}

fn http() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// A request for each batch of a group, ten at once.
async fn post_all(
    http: &Http,
    url: &str,
    rows: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<()> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (group, payload) in rows {
        groups.entry(group).or_default().push(payload);
    }
    let posts = groups.into_values().map(|payloads| async move {
        for batch in payloads.chunks(BATCH) {
            post(http, url, format!("[{}]", batch.join(","))).await?;
        }
        anyhow::Ok(())
    });
    stream::iter(posts).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn post(http: &Http, url: &str, body: String) -> anyhow::Result<()> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{url}/api/events/batch"))
        .header("content-type", "application/json")
        .body(Full::from(body))?;
    let answer = http.request(request).await?;
    anyhow::ensure!(answer.status().is_success(), "the endpoint answered {}", answer.status());
    answer.into_body().collect().await?;
    Ok(())
}
