//! PostgreSQL: a server of the case's own, which may be stopped and started again.

use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::Outbox;
use pillarbox::port::Admin;
use pillarbox_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use pillarbox_postgres::sqlx::{Connection, Executor, Row, query, raw_sql};
use pillarbox_postgres::{Pooler, PostgresStore};

use super::{Commits, Desk, Ended, Ending, Ground, Later, Parcels, Restart, Site, Stop};
use crate::block_on;
use crate::plan::{Plan, event};
use crate::server::{self, Server};

const TABLES: &str = "\
create table counter (grp integer primary key, number integer not null);
create table parcel (id text primary key, grp integer not null, number integer not null)";
/// Its lock is held until the transaction ends, so that a group's numbers are in the order of their commits.
const NEXT: &str = "insert into counter as c (grp, number) values ($1, 1) \
                    on conflict (grp) do update set number = c.number + 1 returning number";
const PARCEL: &str = "insert into parcel (id, grp, number) values ($1, $2, $3)";

/// Nobody waits for the disk, and the server hardly ever writes by itself.
const FORGETFUL: [&str; 2] = ["synchronous_commit=off", "wal_writer_delay=10s"];

pub(crate) struct Postgres;

impl Ground for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn has_server(&self) -> bool {
        true
    }

    fn has_backends(&self) -> bool {
        true
    }

    fn can_forget(&self) -> bool {
        true
    }

    fn fresh(&self, commits: Commits) -> Later<'_, Result<Site, String>> {
        Box::pin(async move {
            let server = match commits {
                Commits::Kept => Server::new(&[])?,
                Commits::TakenBack => Server::new(&FORGETFUL)?,
            };
            let url = server.url();
            let store = open(&url).await?;
            store.migrate().await.map_err(text)?;
            let mut connection = PgConnection::connect(&url).await.map_err(text)?;
            connection.execute(raw_sql(TABLES)).await.map_err(text)?;
            let server: Arc<dyn Restart> = Arc::new(Mutex::new(server));
            let guard = Box::new(Arc::clone(&server));
            Ok(Site { url, store: Arc::new(store), server: Some(server), _guard: guard })
        })
    }

    fn parcels<'a>(&'a self, url: &'a str) -> Later<'a, Result<Parcels, String>> {
        Box::pin(async move {
            let mut connection = PgConnection::connect(url).await.map_err(text)?;
            let rows = query("select id, grp, number from parcel").fetch_all(&mut connection).await;
            let number = |row: &_, column| number(row, column);
            let parcel = |row: &_| Ok((Row::try_get(row, 0)?, (number(row, 1)?, number(row, 2)?)));
            rows.and_then(|rows| rows.iter().map(parcel).collect()).map_err(text)
        })
    }

    fn open<'a>(&'a self, plan: &'a Plan) -> Later<'a, Result<Box<dyn Desk>, String>> {
        Box::pin(async {
            let outbox = plan.outbox(open(&plan.url).await?).start().await.map_err(text)?;
            Ok(Box::new(Till { outbox, label: plan.label.clone() }) as Box<dyn Desk>)
        })
    }
}

impl Restart for Mutex<Server> {
    fn restart(&self, how: Stop, down: &mut dyn FnMut()) -> Result<(), String> {
        let mut server = self.lock().unwrap_or_else(PoisonError::into_inner);
        let how = match how {
            Stop::Fast => server::Stop::Fast,
            Stop::Immediate => server::Stop::Immediate,
            Stop::Kill => server::Stop::Kill,
            Stop::Backend => {
                let pid = block_on(own_backend(&server.url())).map_err(text)?;
                server.kill_backend(pid)?;
                down();
                return Ok(());
            }
        };
        server.stop(how);
        down();
        server.start()
    }
}

/// The process of a connection that nobody else uses.
async fn own_backend(url: &str) -> Result<i32, pillarbox_postgres::sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    let pid = query("select pg_backend_pid()").fetch_one(&mut connection).await?.try_get(0)?;
    // It is not closed in order: whoever holds it dies with it.
    std::mem::forget(connection);
    Ok(pid)
}

fn number(
    row: &pillarbox_postgres::sqlx::postgres::PgRow,
    column: usize,
) -> Result<u32, pillarbox_postgres::sqlx::Error> {
    Ok(row.try_get::<i32, _>(column)?.unsigned_abs())
}

/// A process may be started while the server is down: it waits for its first connection.
async fn open(url: &str) -> Result<PostgresStore, String> {
    let options: PgConnectOptions = url.parse().map_err(text)?;
    // A process that is stopped inside a transaction keeps its locks on the counters, which the others need.
    let options = options.options([("idle_in_transaction_session_timeout", "2s")]);
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await.map_err(text)?;
    Ok(PostgresStore::builder(pool).pooler(Pooler::None).open())
}

fn text(error: impl std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

struct Till {
    outbox: Outbox<PostgresStore>,
    label: String,
}

impl Till {
    async fn try_write(&self, group: u32, count: u32, ending: Ending) -> Result<Ended, String> {
        let group_number = i32::try_from(group).map_err(text)?;
        let mut tx = self.outbox.begin().await.map_err(text)?;
        let mut ids = Vec::new();
        for _ in 0..count {
            let row = query(NEXT).bind(group_number).fetch_one(&mut **tx).await.map_err(text)?;
            let number = number(&row, 0).map_err(text)?;
            let id = tx.write(event(group, number, &self.label)).map_err(text)?;
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            let parcel =
                query(PARCEL).bind(&id).bind(group_number).bind(i32::try_from(number).map_err(text)?);
            parcel.execute(&mut **tx).await.map_err(text)?;
            ids.push(id);
        }
        match ending {
            Ending::Commit => {
                tx.commit().await.map_err(text)?;
                Ok(Ended::Committed(ids))
            }
            Ending::Rollback => {
                tx.rollback().await.map_err(text)?;
                Ok(Ended::RolledBack(ids))
            }
        }
    }
}

impl Desk for Till {
    fn write(&self, group: u32, count: u32, ending: Ending) -> Later<'_, Result<Ended, String>> {
        Box::pin(self.try_write(group, count, ending))
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(self.outbox.close())
    }
}
