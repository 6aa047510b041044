//! What the insert of one event costs the server, beside the same insert by bare SQL and one into a lean table.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::model::{Lane, NewRow, Placement};
use pillarbox::port::{Begin, WriteOn};
use pillarbox_postgres::PostgresWakeUp;
use pillarbox_postgres::sqlx::{AssertSqlSafe, Connection, query, raw_sql};

use super::Sizes;
use super::fixture::Fixture;
use super::server::backends_cpu;
use crate::database::{MEASURED, payload};
use crate::figure::{Figure, Goal, Samples};

/// Inserts of one transaction, so that its beginning and its end hardly count.
const INSERTS: usize = 5_000;
/// Inserts before the measurement, after which the server has its plan.
const WARM: usize = 50;

/// The least that a table of events can be: a number, a type, a time and the payload.
const LEAN: &str = "CREATE TABLE lean (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_type text NOT NULL, \
    created_at timestamptz NOT NULL DEFAULT now(), payload text NOT NULL)";
const INTO_LEAN: &str = "INSERT INTO lean (event_type, payload) VALUES ($1, $2)";
const INTO_EVENTS: &str = "INSERT INTO outbox_event (event_id, event_type, lane, payload) \
    VALUES (lpad(nextval('outbox_event_seq')::text, 26, '0'), $1, 64, $2)";

pub(super) async fn measure(url: &str, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut lean, mut bare, mut ours) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..sizes.rounds {
        let fixture = Fixture::new(url).await?;
        let connection = fixture.pool(1).await?;
        raw_sql(LEAN).execute(&connection).await?;
        connection.close().await;
        lean.push(by_statement(&fixture, INTO_LEAN).await?);
        bare.push(by_statement(&fixture, INTO_EVENTS).await?);
        ours.push(by_store(&fixture).await?);
        fixture.remove().await?;
    }
    let what = |against| format!("server CPU of inserting one event, against {against}");
    let unit = "µs";
    Ok(vec![
        Figure::ratio(what("an insert into a lean table"), unit, &ours, &lean, Goal::AtMost(1.5)),
        Figure::ratio(what("a bare insert into the same table"), unit, &ours, &bare, Goal::None),
    ])
}

/// Microseconds of the server for each insert.
fn each(before: Duration, after: Duration) -> f64 {
    (after - before).as_secs_f64() * 1e6 / INSERTS as f64
}

async fn by_statement(fixture: &Fixture, sql: &'static str) -> anyhow::Result<f64> {
    let pool = fixture.pool(1).await?;
    let (mut connection, payload) = (pool.acquire().await?, payload());
    let mut before = Duration::ZERO;
    let mut tx = connection.begin().await?;
    for number in 0..WARM + INSERTS {
        if number == WARM {
            before = backends_cpu(fixture.admin(), fixture.schema()).await?;
        }
        query(AssertSqlSafe(sql)).bind(MEASURED).bind(&payload).execute(&mut *tx).await?;
    }
    let after = backends_cpu(fixture.admin(), fixture.schema()).await?;
    tx.rollback().await?;
    drop(connection);
    pool.close().await;
    Ok(each(before, after))
}

async fn by_store(fixture: &Fixture) -> anyhow::Result<f64> {
    let (store, payload) = (fixture.store(1, PostgresWakeUp::Off).await?, payload());
    let mut before = Duration::ZERO;
    let mut tx = store.begin().await?;
    for number in 0..WARM + INSERTS {
        if number == WARM {
            before = backends_cpu(fixture.admin(), fixture.schema()).await?;
        }
        let event = Event::text(MEASURED, payload.clone()).build()?;
        store.insert(&mut tx, &[NewRow { event, placement: Placement::Lane(Lane(64)) }]).await?;
    }
    let after = backends_cpu(fixture.admin(), fixture.schema()).await?;
    store.rollback(tx).await?;
    store.pool().close().await;
    Ok(each(before, after))
}
