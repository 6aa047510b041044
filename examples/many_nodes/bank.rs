//! The bank: accounts that count their bookings, and the ledger that the listener keeps.

use pillarbox::events::Listener;
use pillarbox::{AggregateType, Event, EventType, Failure, Outbox};
use pillarbox_postgres::PostgresStore;
use serde::{Deserialize, Serialize};
use sqlx::Executor;
use sqlx::postgres::PgPool;

#[derive(EventType)]
#[event_type(rename_all = "dot.case")]
pub(crate) enum BankEvent {
    MoneyBooked,
}

#[derive(AggregateType)]
pub(crate) struct Account;

#[derive(Serialize, Deserialize)]
struct Booking {
    number: i64,
}

// Several nodes start at once: one makes the tables, the others wait for it.
const TABLES: &str = "\
    BEGIN;
    SELECT pg_advisory_xact_lock(7202611);
    CREATE TABLE IF NOT EXISTS account (name text PRIMARY KEY, booked bigint NOT NULL DEFAULT 0,
        closed boolean NOT NULL DEFAULT false);
    INSERT INTO account SELECT 'account-' || n FROM generate_series(1, 6) n ON CONFLICT DO NOTHING;
    CREATE TABLE IF NOT EXISTS ledger (id bigint GENERATED ALWAYS AS IDENTITY, event_id text PRIMARY KEY,
        account text NOT NULL, number bigint NOT NULL, node text NOT NULL);
    COMMIT";

pub(crate) async fn open(pool: &PgPool) -> Result<(), sqlx::Error> {
    pool.execute(TABLES).await.map(drop)
}

/// Books once on some account that has not had all its bookings. The lock on its row lasts until the commit: so bookings of
/// an account commit in the order of their numbers, whichever node makes them.
pub(crate) async fn book(outbox: &Outbox<PostgresStore>, bookings: i64) -> anyhow::Result<()> {
    let mut tx = outbox.begin().await?;
    let take = "UPDATE account SET booked = booked + 1 WHERE name = \
        (SELECT name FROM account WHERE booked < $1 AND NOT closed ORDER BY random() LIMIT 1 FOR UPDATE) RETURNING name, booked";
    let booked: Option<(String, i64)> = sqlx::query_as(take).bind(bookings).fetch_optional(tx.conn()).await?;
    if let Some((name, number)) = booked {
        tx.write(Event::json(BankEvent::MoneyBooked, &Booking { number })?.aggregate(Account, name))?;
    }
    tx.commit().await?;
    Ok(())
}

/// The listener: writes a booking into the ledger, once, however often the event comes.
pub(crate) struct Book {
    pub(crate) node: String,
    pub(crate) pool: PgPool,
}

impl Listener for Book {
    async fn on_event(&self, event: Event) -> Result<(), Failure> {
        let Booking { number } = event.json_as().map_err(Failure::permanent)?;
        let account = event.aggregate_id().unwrap_or_default();
        let insert = "INSERT INTO ledger (event_id, account, number, node) VALUES ($1, $2, $3, $4) \
            ON CONFLICT DO NOTHING";
        let query = sqlx::query(insert).bind(event.id().as_str()).bind(account).bind(number);
        let fresh = query.bind(&self.node).execute(&self.pool).await?.rows_affected() == 1;
        println!("{} delivers {account} {number}{}", self.node, if fresh { "" } else { " again" });
        Ok(())
    }
}
