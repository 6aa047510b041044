//! What an idle node asks of the database.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::port::OnDone;
use pillarbox_postgres::sqlx::postgres::PgConnectOptions;
use pillarbox_postgres::sqlx::query_scalar;

use super::Sizes;
use super::drain::{Ordered, open};
use super::fixture::Fixture;
use super::proxy::Proxy;
use crate::database::Arrivals;
use crate::figure::{Figure, Goal, Samples};

/// Until what a start brings with it is over.
const SETTLING_IN: Duration = Duration::from_secs(3);

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let options: PgConnectOptions = url.parse()?;
    let proxy = Proxy::start(format!("{}:{}", options.get_host(), options.get_port())).await?;
    let fixture = Fixture::new(url).await?;
    let through = fixture.through(proxy.address);
    let outbox = open(&through, Ordered::PerGroup, OnDone::Keep, &Arc::new(Arrivals::default())).await?;
    tokio::time::sleep(SETTLING_IN).await;
    let before = (proxy.statements(), transactions(&fixture).await?);
    tokio::time::sleep(sizes.idle).await;
    let after = (proxy.statements(), transactions(&fixture).await?);
    outbox.close().await;
    let (mut statements, mut ended) = (Samples::default(), Samples::default());
    statements.push((after.0 - before.0) as f64 / sizes.idle.as_secs_f64());
    ended.push((after.1 - before.1) as f64 / sizes.idle.as_secs_f64());
    drop(outbox);
    fixture.remove().await?;
    let what = format!("one idle node, over {} s, statements", sizes.idle.as_secs());
    let counted = "the same, transactions of the whole server, by its own count";
    Ok(vec![
        Figure::alone(what, "/s", &statements, Goal::AtMost(2.0)),
        Figure::alone(counted, "/s", &ended, Goal::None),
    ])
}

async fn transactions(fixture: &Fixture) -> anyhow::Result<i64> {
    let sql = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database";
    Ok(query_scalar(sql).fetch_one(fixture.admin()).await?)
}
