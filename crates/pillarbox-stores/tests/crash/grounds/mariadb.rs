//! MariaDB: a database of the case's own on the server that a variable names.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::Outbox;
use pillarbox::port::Admin;
use pillarbox_mysql::MysqlStore;
use pillarbox_mysql::sqlx::mysql::{MySqlConnection, MySqlPoolOptions, MySqlRow};
use pillarbox_mysql::sqlx::{AssertSqlSafe, Connection, Error, Executor, Row, query, raw_sql};
use uuid::Uuid;

use super::mariadb_server::MariadbServer;
use super::{Commits, Desk, Ended, Ending, Ground, Later, Parcels, Restart, Site, Stop};
use crate::plan::{Plan, event};

const URL: &str = "PILLARBOX_TEST_MARIADB_URL";
const TABLES: &str = "\
create table counter (grp integer primary key, number integer not null);
create table parcel (id varchar(64) primary key, grp integer not null, number integer not null)";
/// Its lock is held until the transaction ends, so that a group's numbers are in the order of their commits.
const NEXT: &str = "insert into counter (grp, number) values (?, 1) on duplicate key update number = number + 1 returning number";
const PARCEL: &str = "insert into parcel (id, grp, number) values (?, ?, ?)";

pub(crate) struct Mariadb;

impl Ground for Mariadb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn can_forget(&self) -> bool {
        true
    }

    fn fresh(&self, commits: Commits) -> Later<'_, Result<Site, String>> {
        Box::pin(async move {
            let mut server = std::env::var(URL)
                .map_err(|_| format!("{URL} is not set; `cargo xtask test` starts a server"))?;
            let mut own: Option<Arc<dyn Restart>> = None;
            if commits == Commits::TakenBack {
                let forgetful = MariadbServer::new(&server).await?;
                server = forgetful.url();
                own = Some(Arc::new(Mutex::new(forgetful)));
            }
            let name = format!("pillarbox_c_{}", Uuid::now_v7().simple());
            let (host, _) = server.rsplit_once('/').ok_or("the URL names no database")?;
            let url = format!("{host}/{name}");
            let mut connection = MySqlConnection::connect(&server).await.map_err(text)?;
            let make = format!("create database {name}; use {name}; {TABLES}");
            connection.execute(raw_sql(AssertSqlSafe(make))).await.map_err(text)?;
            let guard: Box<dyn Any + Send> = match &own {
                Some(own) => Box::new(Arc::clone(own)),
                None => Box::new(Database { server, name }),
            };
            let store = open(&url).await?;
            store.migrate().await.map_err(text)?;
            Ok(Site { url, store: Arc::new(store), server: own, _guard: guard })
        })
    }

    fn parcels<'a>(&'a self, url: &'a str) -> Later<'a, Result<Parcels, String>> {
        Box::pin(async move {
            let mut connection = MySqlConnection::connect(url).await.map_err(text)?;
            let rows = query("select id, grp, number from parcel").fetch_all(&mut connection).await;
            let parcel = |row: &MySqlRow| Ok((row.try_get(0)?, (number(row, 1)?, number(row, 2)?)));
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

impl Restart for Mutex<MariadbServer> {
    fn restart(&self, how: Stop, down: &mut dyn FnMut()) -> Result<(), String> {
        self.lock().unwrap_or_else(PoisonError::into_inner).restart(how, down)
    }
}

/// Goes with its case.
struct Database {
    server: String,
    name: String,
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let Ok(mut connection) = MySqlConnection::connect(&server).await else { return };
                let text = format!("set session lock_wait_timeout = 5; drop database if exists {name}");
                // A case that failed may have left locks; its failure matters more.
                let _ = connection.execute(raw_sql(AssertSqlSafe(text))).await;
            });
        });
        let _ = dropping.join();
    }
}

fn number(row: &MySqlRow, column: usize) -> Result<u32, Error> {
    Ok(row.try_get::<i32, _>(column)?.unsigned_abs())
}

async fn open(url: &str) -> Result<MysqlStore, String> {
    // A process that is stopped inside a transaction keeps its locks on the counters, which the others need.
    let pool = MySqlPoolOptions::new().max_connections(4).after_connect(|connection, _| {
        Box::pin(async move {
            connection.execute("set session idle_transaction_timeout = 2").await?;
            Ok(())
        })
    });
    Ok(MysqlStore::new(pool.connect(url).await.map_err(text)?))
}

fn text(error: impl std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

struct Till {
    outbox: Outbox<MysqlStore>,
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
