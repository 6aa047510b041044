//! MongoDB: a database of the case's own on a replica set that a variable names, or on a set of three of its own whose primary is killed.

use std::sync::{Arc, Mutex, PoisonError};

use pillarbox::Outbox;
use pillarbox::events::Transaction;
use pillarbox::port::Admin;
use pillarbox_mongodb::MongodbStore;
use pillarbox_mongodb::mongodb::bson::{Document, doc};
use pillarbox_mongodb::mongodb::error::TRANSIENT_TRANSACTION_ERROR;
use pillarbox_mongodb::mongodb::options::ReturnDocument;
use pillarbox_mongodb::mongodb::{Client, Database};
use uuid::Uuid;

use super::{Commits, Desk, Ended, Ending, Ground, Later, Parcels, Restart, Site, Stop};
use crate::block_on;
use crate::mongod::{MONGOD, Three};
use crate::plan::{Plan, event};

/// A replica set of one, that other tests use too.
const ONE: &str = "PILLARBOX_TEST_MONGODB_URL";

/// Whose servers a case runs on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mongodb {
    /// Left alone.
    One,
    /// The case's own.
    Three,
}

impl Ground for Mongodb {
    fn name(&self) -> &'static str {
        match self {
            Self::One => "mongodb",
            Self::Three => "mongodb-3",
        }
    }

    fn has_server(&self) -> bool {
        *self == Self::Three
    }

    /// The set of one stands for the other in the cases that leave servers alone.
    fn is_spared(&self) -> bool {
        *self == Self::One
    }

    /// A process of the test's pace takes seconds until it has found its primary.
    fn kills(&self) -> usize {
        9
    }

    fn fresh(&self, _: Commits) -> Later<'_, Result<Site, String>> {
        Box::pin(async move {
            let name = format!("c_{}", Uuid::now_v7().simple());
            match self {
                Self::One => {
                    let server = variable(ONE)?;
                    let (hosts, options) =
                        server.split_once("/pillarbox").ok_or("the URL names another database")?;
                    let url = format!("{hosts}/{name}{options}");
                    let store = fill(&url).await?;
                    let guard = Box::new(Dropped(url.clone()));
                    Ok(Site { url, store: Arc::new(store), server: None, _guard: guard })
                }
                Self::Three => {
                    let set = Three::start(&variable(MONGOD)?).await?;
                    let url = set.url(&name);
                    let store = fill(&url).await?;
                    let server = Some(Arc::new(Primary(Mutex::new(set))) as Arc<dyn Restart>);
                    Ok(Site { url, store: Arc::new(store), server, _guard: Box::new(()) })
                }
            }
        })
    }

    fn parcels<'a>(&'a self, url: &'a str) -> Later<'a, Result<Parcels, String>> {
        Box::pin(async move {
            let mut found =
                database(url).await?.collection::<Document>("parcel").find(doc! {}).await.map_err(text)?;
            let mut parcels = Parcels::new();
            while found.advance().await.map_err(text)? {
                let parcel = found.deserialize_current().map_err(text)?;
                let number = |field| parcel.get_i32(field).map(i32::unsigned_abs).map_err(text);
                let id = parcel.get_str("_id").map_err(text)?.to_owned();
                parcels.insert(id, (number("grp")?, number("number")?));
            }
            Ok(parcels)
        })
    }

    fn open<'a>(&'a self, plan: &'a Plan) -> Later<'a, Result<Box<dyn Desk>, String>> {
        Box::pin(async {
            let database = database(&plan.url).await?;
            let store = MongodbStore::new(database.clone()).await.map_err(text)?;
            let outbox = plan.outbox(store).start().await.map_err(text)?;
            Ok(Box::new(Till { outbox, database, label: plan.label.clone() }) as Box<dyn Desk>)
        })
    }
}

async fn database(url: &str) -> Result<Database, String> {
    let client = Client::with_uri_str(url).await.map_err(text)?;
    client.default_database().ok_or_else(|| "the URL names no database".to_owned())
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set; `cargo xtask test` starts a server"))
}

/// Makes the collections of the business and of the outbox.
async fn fill(url: &str) -> Result<MongodbStore, String> {
    let database = database(url).await?;
    for collection in ["counter", "parcel"] {
        database.create_collection(collection).await.map_err(text)?;
    }
    let store = MongodbStore::open_url(url).await.map_err(text)?;
    store.migrate().await.map_err(text)?;
    Ok(store)
}

/// The primary of a set.
struct Primary(Mutex<Three>);

impl Restart for Primary {
    fn restart(&self, how: Stop, down: &mut dyn FnMut()) -> Result<(), String> {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if how == Stop::Fast {
            block_on(set.step_down());
            down();
            return Ok(());
        }
        block_on(set.kill_primary(down))
    }
}

/// Goes with its case.
struct Dropped(String);

impl Drop for Dropped {
    fn drop(&mut self) {
        let url = self.0.clone();
        let dropping = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // A case that failed may have left locks; its failure matters more.
            let _ = runtime.block_on(async { database(&url).await?.drop().await.map_err(text) });
        });
        let _ = dropping.join();
    }
}

fn text(error: impl std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

struct Till {
    outbox: Outbox<MongodbStore>,
    database: Database,
    label: String,
}

impl Till {
    /// Draws numbers of the group and writes their events and parcels; their ids, or none if another transaction has the group.
    async fn fill(
        &self,
        tx: &mut Transaction<MongodbStore>,
        group: u32,
        count: u32,
    ) -> Result<Option<Vec<String>>, String> {
        let grp = i32::try_from(group).map_err(text)?;
        let mut ids = Vec::new();
        for _ in 0..count {
            // It is the transaction's until that ends, so that a group's numbers are in the order of their commits.
            let counters = self.database.collection::<Document>("counter");
            let next = counters.find_one_and_update(doc! { "_id": grp }, doc! { "$inc": { "number": 1 } });
            let next = next.upsert(true).return_document(ReturnDocument::After).session(&mut **tx).await;
            let next = match next {
                Err(error) if error.contains_label(TRANSIENT_TRANSACTION_ERROR) => return Ok(None),
                next => next.map_err(text)?,
            };
            let number = next.and_then(|next| next.get_i32("number").ok()).unwrap_or_default();
            let id = tx.write(event(group, number.unsigned_abs(), &self.label)).map_err(text)?;
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            let parcel = doc! { "_id": &id, "grp": grp, "number": number };
            let parcels = self.database.collection::<Document>("parcel");
            parcels.insert_one(parcel).session(&mut **tx).await.map_err(text)?;
            ids.push(id);
        }
        Ok(Some(ids))
    }
}

impl Desk for Till {
    fn write(&self, group: u32, count: u32, ending: Ending) -> Later<'_, Result<Ended, String>> {
        Box::pin(async move {
            let mut tx = self.outbox.begin().await.map_err(text)?;
            match (self.fill(&mut tx, group, count).await?, ending) {
                (Some(ids), Ending::Commit) => tx.commit().await.map(|_| Ended::Committed(ids)).map_err(text),
                (Some(ids), Ending::Rollback) => {
                    tx.rollback().await.map(|()| Ended::RolledBack(ids)).map_err(text)
                }
                (None, _) => tx.rollback().await.map(|()| Ended::GroupTaken).map_err(text),
            }
        })
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(self.outbox.close())
    }
}
