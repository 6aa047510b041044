//! The business transaction with tokio-postgres, alone and with our outbox, whose insert goes out with the COMMIT.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::port::OnDone;
use pillarbox::{Event, Outbox};
use pillarbox_postgres::deadpool_postgres::{ClientWrapper, Pool};
use pillarbox_postgres::{PipelinedStore, PostgresWakeUp};

use super::end_to_end::rate_when_settled;
use super::fixture::Fixture;
use crate::database::{Arrivals, MEASURED, NOTE, Until, Work, drive, payload};

async fn business(client: &ClientWrapper, account: i64) -> anyhow::Result<()> {
    let order =
        client.prepare_cached("INSERT INTO orders (account_id, amount, note) VALUES ($1, $2, $3)").await?;
    client.execute(&order, &[&account, &1_i64, &NOTE]).await?;
    let change = client.prepare_cached("UPDATE account SET balance = balance + $2 WHERE id = $1").await?;
    client.execute(&change, &[&account, &1_i64]).await?;
    Ok(())
}

struct Alone(Pool);

impl Work for Alone {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let client = self.0.get().await?;
        client.batch_execute("BEGIN").await?;
        business(&client, account).await?;
        Ok(client.batch_execute("COMMIT").await?)
    }
}

struct Ours {
    outbox: Outbox<PipelinedStore>,
    payload: String,
}

impl Work for Ours {
    async fn once(&self, account: i64) -> anyhow::Result<()> {
        let mut tx = self.outbox.begin().await?;
        business(&tx, account).await?;
        tx.write(Event::text(MEASURED, self.payload.clone()))?;
        Ok(tx.commit().await?)
    }
}

pub(super) async fn run_alone(fixture: &Fixture, writers: usize, window: Duration) -> anyhow::Result<f64> {
    let pool = fixture.clients(writers)?;
    let done = drive(Alone(pool.clone()), writers, Until::Elapsed(window)).await?;
    pool.close();
    Ok(done.rate())
}

pub(super) async fn run_ours(fixture: &Fixture, writers: usize, window: Duration) -> anyhow::Result<f64> {
    let arrivals = Arc::new(Arrivals::default());
    let store =
        PipelinedStore::new(fixture.store(1, PostgresWakeUp::Notify).await?, fixture.clients(writers)?);
    let builder = Outbox::single_node(store).listener(MEASURED, arrivals.listener());
    let outbox = builder.on_done(OnDone::Delete).no_purge().start().await?;
    let work = Ours { outbox: outbox.clone(), payload: payload() };
    let done = drive(work, writers, Until::Elapsed(window)).await?;
    let rate = rate_when_settled(fixture, done).await?;
    outbox.close().await;
    outbox.store().pool().close();
    outbox.store().inner().pool().close().await;
    Ok(rate)
}
